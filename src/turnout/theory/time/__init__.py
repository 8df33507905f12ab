"""Whom a server trains for when work takes time: shares of updates and their ages, pace by pace.

A tick is one step of the world. A client works for its *duration*, a number of ticks beyond the first, which is fixed
or has a law; it comes and goes as a two-state chain with rate π and correlation λ. Derivations, and what each function
was measured against, are in docs/theory/time.md.
"""
