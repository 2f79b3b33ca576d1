"""Train on measured runs: ``python train.py [DATA...] --host MI300X --target MI355X --out RUN`` writes a run folder."""

from flopcast.commands.app import script

if __name__ == "__main__":
    script("train")
elif __name__ != "__mp_main__":  # what joblib calls the script in its processes
    raise ImportError(
        "train.py is a script, to be run: what it does is the function flopcast.train"
    )
