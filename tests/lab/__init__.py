"""What is run by hand, not by pytest: long measurements, each with a table as its result. `python -m tests.lab` lists them."""
