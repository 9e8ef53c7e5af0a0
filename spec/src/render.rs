//! A service spec as text.
