"""From repeated measurements to trustworthy ones: what is left out, why, and how far the rest spreads."""
