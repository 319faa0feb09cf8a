"""The names of all options: engines, algorithms, rules, policies, seedings, bounds, formats.

This module imports nothing, so that the command line can print its help at once.
"""

ENGINES = ("auto", "reference", "cpu", "gpu")
ALGORITHMS = ("auto", "dense", "bounds", "tree", "lloyd", "elkan")
METRICS = ("euclidean", "cosine")
STOPS = ("decrease", "gap", "shift", "stationary")
TOLERANCE_SCALES = ("initial", "total", "absolute")
POLICIES = ("keep", "resample", "farthest", "best", "admissible")
"""For empty clusters."""
POLISHES = ("hartigan", "swap")
SEEDINGS = ("multilevel", "k-means++", "plain-k-means++", "k-means||", "random", "greedy-k-means++")
"""`greedy-k-means++` is another name of `k-means++`."""
TRIMMED_SEEDINGS = ("trimmed-k-means++",)
BOUNDS = ("exact", "spectral", "neighbours", "prices", "semidefinite", "branching", "subsampled")
"""Lower bounds on the best possible SSE."""

GAPS = ("published", "decrease", "gap")
"""What is called a gap: the drop of the inertia counted from the seeds, which the paper printed;
the decrease g_t + m_t of the objective; the Frank-Wolfe gap g_t proper."""
MIXTURES = ("blobs", "elliptic", "unbalanced", "heavy", "uniform")
"""Of the study."""
STUDY_SEEDINGS = ("random", "k-means++", "plain-k-means++")
SEGMENTATION_FEATURES = ("standardized", "raw", "shifted")

PEERS = {
    "scikit-learn-intelex": "sklearnex",
    "faiss-cpu": "faiss",
    "superkmeans": "superkmeans",
}
"""Other K-means libraries, and the names of their modules; scikit-learn is always there."""
BENCH_SIZES = ("small", "medium", "large")
DTYPES = ("float32", "float64")

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npy", "npz")
"""Of tables."""
