"""Sums of what clients send, of which the server learns nothing but the sum: SecAgg+ in four exchanges.

Experimental: nobody outside this project has reviewed the cryptography. Needs `cryptography`, the extra `secure`.

K. Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017.
J. H. Bell et al., Secure Single-Server Aggregation with (Poly)Logarithmic Overhead, CCS 2020.
"""
