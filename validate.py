"""Does linear scaling hold? ``python validate.py [DATA...] --host MI300X --target MI355X`` answers per kernel class."""

from flopcast.commands.app import script

if __name__ == "__main__":
    script("validate")
