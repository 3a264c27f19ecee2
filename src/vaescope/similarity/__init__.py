"""Representational similarity of two representations, of all pairs of many, and between the layers of models."""

from vaescope.similarity.cka import MinibatchCKA, StreamedCKA, hsic, linear_cka, rbf_cka
from vaescope.similarity.heatmap import ActivationSource, SimilarityMap, group_similarity, layer_similarity
from vaescope.similarity.matching import LatentMatching, LatentPair, match_latents
from vaescope.similarity.measures import procrustes, pwcca, rsa, svcca
from vaescope.similarity.pairs import CKA, PROCRUSTES, all_pairs
from vaescope.similarity.sample_size import SampleSizeStudy, sample_size_study
from vaescope.similarity.structure import structure_preservation
from vaescope.similarity.theory import Conservation, conservation

__all__ = [
    "CKA",
    "PROCRUSTES",
    "ActivationSource",
    "Conservation",
    "LatentMatching",
    "LatentPair",
    "MinibatchCKA",
    "SampleSizeStudy",
    "SimilarityMap",
    "StreamedCKA",
    "all_pairs",
    "conservation",
    "group_similarity",
    "hsic",
    "layer_similarity",
    "linear_cka",
    "match_latents",
    "procrustes",
    "pwcca",
    "rbf_cka",
    "rsa",
    "sample_size_study",
    "structure_preservation",
    "svcca",
]
