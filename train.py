"""Train on measured runs: ``python train.py [DATA...] --host MI300X --target MI355X --out RUN`` writes a run folder."""

from flopcast.commands.app import script

if __name__ == "__main__":
    script("train")
