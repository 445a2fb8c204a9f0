"""From a call's arguments to what a specialisation takes."""
