"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from flopcast.commands.app import script

if __name__ == "__main__":
    script("predict")
elif __name__ != "__mp_main__":  # what joblib calls the script in its processes
    raise ImportError(
        "predict.py is a script, to be run: what it does is the function flopcast.predict"
    )
