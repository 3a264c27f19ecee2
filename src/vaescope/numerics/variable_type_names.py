"""Names of the variable types of the polarised regime (Bonheme, section 6.4.1); this module does not load torch."""

ACTIVE, MIXED, PASSIVE = "active", "mixed", "passive"
VARIABLE_TYPES = (ACTIVE, MIXED, PASSIVE)
