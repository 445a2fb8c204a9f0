"""One folder for each device, and the emitters that devices share."""

if not __name__.startswith("quadrants_lab."):
    raise ImportError("this folder is the package quadrants_lab.backends: import it by that name")

DEFAULT = "cpu"  # the device that every machine has
