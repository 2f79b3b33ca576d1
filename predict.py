"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from flopcast.commands.app import script

if __name__ == "__main__":
    script("predict")
