"""Passes over the program of one device that leave it fewer collectives, or hide them."""
