"""quadrants_lab: the Quadrants kernel language with every stage open to the eye."""
