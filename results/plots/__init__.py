"""Plots over the time of a run, one module each; the only place that imports matplotlib.

A plot is a function from the run's tables to an SVG text, empty where there is nothing to show.
Text stays text, and the frame takes the colour of the text around it, so a plot fits a light and a
dark page.
"""

import logging

# Without a writable home matplotlib caches its fonts elsewhere and warns of it, each time.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
