"""The variants that follow a paper to the letter, changed only where privacy demands it. One file per paper."""

# Papers of which there are two variants that share no code but this.

BSG = "Bindschaedler, Shokri, Gunter: Plausible Deniability for Privacy-Preserving Data Synthesis (VLDB 2017)"
RAP = (
    "Aydore, Brown, Kearns, Kenthapadi, Melis, Roth, Siva: Differentially Private Query Release Through Adaptive "
    "Projection (ICML 2021)"
)
