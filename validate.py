"""Does linear scaling hold? ``python validate.py [DATA...] --host MI300X --target MI355X`` answers per kernel class."""

from flopcast.commands.app import script

if __name__ == "__main__":
    script("validate")
elif __name__ != "__mp_main__":  # what joblib calls the script in its processes
    raise ImportError(
        "validate.py is a script, to be run: what it does is the function flopcast.validate"
    )
