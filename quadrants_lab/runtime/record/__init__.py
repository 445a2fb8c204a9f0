"""What launches were: records, their text, and launching them once more elsewhere."""
