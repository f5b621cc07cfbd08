#ifndef ESP_CLI_PROFILES_H
#define ESP_CLI_PROFILES_H
/*
 * Shapes of trees for `espalier generate`: measured profiles of real ones as data, and
 * degenerate ones.  To add a measured one, add a row to the table in profiles.c.
 */
#include <stddef.h>

enum { ESP_PROFILE_LEVELS_MAX = 20 };

enum esp_profile_kind {
    ESP_PROFILE_LEVELS,  /* by the histogram below */
    ESP_PROFILE_THREADS, /* discussions: who answers whom */
    ESP_PROFILE_CHAIN,   /* one path */
    ESP_PROFILE_STAR,    /* a root, and all others its children */
    ESP_PROFILE_KARY,    /* complete, `arity` children a node */
    ESP_PROFILE_RANDOM,  /* each node below one drawn from all before it */
    ESP_PROFILE_COMB,    /* a path with one leaf at each of its nodes */
    ESP_PROFILE_FOREST,  /* a tenth are roots, the others their children */
};

/* How many children the parents of one level get, relative to each other. */
enum esp_profile_weights {
    ESP_WEIGHTS_PARETO,     /* u^(-1 / spread) */
    ESP_WEIGHTS_LOG_NORMAL, /* exp(spread * z) */
};

struct esp_profile {
    const char *name, *summary;
    enum esp_profile_kind kind;
    unsigned arity; /* KARY */
    /* LEVELS */
    enum esp_profile_weights weights;
    double spread;
    size_t levels;
    double share[ESP_PROFILE_LEVELS_MAX]; /* of all nodes on this level, per mille */
    double inner[ESP_PROFILE_LEVELS_MAX]; /* share of the level's nodes that have children */
};
extern const struct esp_profile esp_profiles[];               /* ends with name == NULL */
const struct esp_profile *esp_profile_find(const char *name); /* or NULL */

#endif
