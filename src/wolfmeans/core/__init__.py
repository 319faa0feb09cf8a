"""The paper: Frank-Wolfe on a concave objective, K-means as such a problem, stopping rules."""
