"""Other programs that vocabfreq hooks into."""
