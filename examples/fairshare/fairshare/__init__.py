"""Splits a bill between people."""
from fairshare.split import split

__all__ = ['split']
