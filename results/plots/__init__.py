"""Plots over the time of a run, one module each. Only this package imports matplotlib.

A plot function takes the run's tables and returns SVG text, or "" if there is no data. Labels are
text in the SVG, and the frame has the colour of the surrounding text. So a plot fits both a light
and a dark page.
"""

import logging

# Without a writable home folder, matplotlib prints a warning each time about its font cache.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
