"""This project and its peers, measured in one run."""
