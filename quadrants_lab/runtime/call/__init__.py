"""What a call of a kernel is compared with, and what it is made of."""
