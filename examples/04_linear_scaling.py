"""
Does linear scaling hold?
=========================

"The target has twice the peak, so it takes half the time." Where is that so? ``fc.validate`` tests it for each class of
kernels: operator, number format, and whether arithmetic or memory bounds it.
"""

import flopcast as fc

validation = fc.validate(replicates=200)
validation.table.round(2)

# %%
# ``median`` is the measured time over the law's, with a 90 % interval that counts groups, not rows: 1 is a law that
# holds, 1.3 one that holds with a correction of 1.3. Where the ratio depends on the size of the kernel, no single
# factor can mend the law, and the verdict says so.

held = validation.table[validation.table["verdict"].str.startswith("holds")]
held[["class", "law", "verdict", "median", "lower", "upper"]].round(2)

# %%
# Why? Each workload under the roofs of both GPUs: scaling by peaks moves every point with its roof.

validation.plot_roofline()

# %%
# The share of the roofline that is reached, by weight shape and work. Linear scaling takes for granted that both halves
# look the same.

validation.plot_efficiency()

# %%
# ``python validate.py DATA --host MI300X --target MI355X --out scaling/`` writes the same as a page.
