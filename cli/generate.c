/* espalier generate: a synthetic tree on stdout. */
#include "cli/shape.h"
#include "cli/shared.h"
#include "core/rng.h"

#include <stdio.h>

enum {
    ID_CHARS = 10,
    ID_BITS = 5 * ID_CHARS,
    OUT_BYTES = 1 << 20,
    PAYLOAD_BYTES_MAX = 300000, /* an item has 400 KB at most */
    POOL_BYTES = 1 << 16,       /* of text that payloads are cut from */
    STREAM_ORDER = 11,
    STREAM_TEXT,
    STREAM_IDS,
};
static const uint64_t id_mask = (UINT64_C(1) << ID_BITS) - 1;

enum order { PARENTS_FIRST, SHUFFLED };
enum format { FORMAT_CSV, FORMAT_JSON, FORMAT_JSONL };

struct generate_options {
    struct esp_cli_options shared;
    uint64_t nodes, seed, payload;
    int order, format;
};

struct generator {
    struct esp_cli *cli;
    const struct generate_options *options;
    struct esp_shape shape;
    uint64_t multiplier[2]; /* odd, from the seed: they scatter the ids */
    char *pool;
    struct esp_buf out;
};

/* --- contents ---------------------------------------------------------------------------- */

static const char *const adjectives[] = {"Amber",  "Brisk",  "Calm",  "Dusty", "Early", "Faint",
                                         "Gentle", "Hollow", "Ivory", "Jolly", "Keen",  "Lofty",
                                         "Misty",  "Noble",  "Open",  "Plain", "Quiet", "Rapid",
                                         "Stony",  "Tidal",  "Upper", "Vivid", "Wild",  "Young"};
static const char *const nouns[] = {
    "archive", "basin",   "canyon",  "delta",   "estate",  "forest",   "garden",    "harbour",
    "island",  "jetty",   "kiln",    "ledger",  "meadow",  "nursery",  "orchard",   "pasture",
    "quarry",  "reserve", "savanna", "terrace", "uplands", "vineyard", "warehouse", "yard"};
enum {
    ADJECTIVES = sizeof adjectives / sizeof adjectives[0],
    NOUNS = sizeof nouns / sizeof nouns[0]
};

/* One to one on numbers of ID_BITS bits: odd multipliers and shifts can be undone. */
static uint64_t scatter(const struct generator *g, uint64_t i) {
    uint64_t x = i + (g->multiplier[0] >> 1); /* the first one is not all of one letter */
    for (int round = 0; round < 2; round++) {
        x = x * g->multiplier[round] & id_mask;
        x ^= x >> (ID_BITS / 2);
    }
    return x;
}

static void put_id(struct generator *g, uint64_t scattered) {
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
    char id[ID_CHARS];
    for (int k = 0; k < ID_CHARS; k++) {
        id[k] = alphabet[scattered >> (5 * k) & 31];
    }
    esp_buf_put(&g->out, id, sizeof id);
}

static void put_name(struct generator *g, uint64_t scattered) {
    esp_buf_put_str(&g->out, esp_str_from(adjectives[scattered % ADJECTIVES]));
    esp_buf_put_char(&g->out, ' ');
    esp_buf_put_str(&g->out, esp_str_from(nouns[scattered / ADJECTIVES % NOUNS]));
}

static void put_payload(struct generator *g, uint64_t scattered) {
    esp_buf_put(&g->out, g->pool + scattered % POOL_BYTES, g->options->payload);
}

/* Words of letters, so that no format needs quotes. */
static void fill_pool(struct generator *g, size_t size) {
    struct esp_rng rng;
    esp_rng_init(&rng, g->options->seed, STREAM_TEXT);
    for (size_t i = 0; i < size; i++) {
        uint64_t letter = esp_rng_below(&rng, 32);
        g->pool[i] = letter < 26 ? (char)('a' + letter) : '-';
    }
}

/* --- rows ----------------------------------------------------------------------------------- */

static enum esp_status flush_full(struct generator *g) {
    return g->out.len >= OUT_BYTES ? esp_cli_print(g->cli, &g->out) : ESP_OK;
}

static void put_csv(struct generator *g, uint32_t i) {
    uint64_t own = scatter(g, i);
    put_id(g, own);
    esp_buf_put_char(&g->out, ',');
    if (g->shape.parent[i] != ESP_SHAPE_ROOT) {
        put_id(g, scatter(g, g->shape.parent[i]));
    }
    esp_buf_put_char(&g->out, ',');
    put_name(g, own);
    if (g->options->payload) {
        esp_buf_put_char(&g->out, ',');
        put_payload(g, own);
    }
    esp_buf_put_char(&g->out, '\n');
}

/* The members of a node, without the closing brace. */
static void put_json_members(struct generator *g, uint32_t i, bool with_parent) {
    uint64_t own = scatter(g, i);
    ESP_BUF_LIT(&g->out, "{\"id\":\"");
    put_id(g, own);
    if (with_parent && g->shape.parent[i] == ESP_SHAPE_ROOT) {
        ESP_BUF_LIT(&g->out, "\",\"parent_id\":null,\"name\":\"");
    } else if (with_parent) {
        ESP_BUF_LIT(&g->out, "\",\"parent_id\":\"");
        put_id(g, scatter(g, g->shape.parent[i]));
        ESP_BUF_LIT(&g->out, "\",\"name\":\"");
    } else {
        ESP_BUF_LIT(&g->out, "\",\"name\":\"");
    }
    put_name(g, own);
    if (g->options->payload) {
        ESP_BUF_LIT(&g->out, "\",\"data\":\"");
        put_payload(g, own);
    }
    ESP_BUF_LIT(&g->out, "\"");
}

static enum esp_status put_rows(struct generator *g, const uint32_t *order) {
    enum esp_status status = ESP_OK;
    if (g->options->format == FORMAT_CSV) {
        esp_buf_put_str(&g->out, g->options->payload ? ESP_STR("id,parent_id,name,data\n")
                                                     : ESP_STR("id,parent_id,name\n"));
    }
    for (uint32_t k = 0; status == ESP_OK && k < g->shape.count; k++) {
        enum { AHEAD = 16 };
        if (order && k + AHEAD < g->shape.count) {
            __builtin_prefetch(&g->shape.parent[order[k + AHEAD]]);
        }
        uint32_t i = order ? order[k] : k;
        if (g->options->format == FORMAT_CSV) {
            put_csv(g, i);
        } else {
            put_json_members(g, i, true);
            ESP_BUF_LIT(&g->out, "}\n");
        }
        status = flush_full(g);
    }
    return status;
}

static enum esp_status put_in_order(struct generator *g) {
    size_t size = (size_t)g->shape.count * sizeof(uint32_t);
    uint32_t *order = NULL;
    if (g->options->order == SHUFFLED) {
        struct esp_rng rng;
        order = esp_big_alloc(g->cli->alloc, size);
        if (!order) {
            return esp_fail_nomem(&g->cli->err);
        }
        for (uint32_t i = 0; i < g->shape.count; i++) {
            order[i] = i;
        }
        esp_rng_init(&rng, g->options->seed, STREAM_ORDER);
        esp_rng_shuffle_u32(&rng, order, g->shape.count);
    }
    enum esp_status status = put_rows(g, order);
    if (order) {
        esp_big_free(g->cli->alloc, order, size);
    }
    return status;
}

/* --- nested JSON ------------------------------------------------------------------------------ */

/* first[i]: the first child, next[i]: the next sibling (of a root: the next root). */
static uint32_t link_children(const struct esp_shape *s, uint32_t *first, uint32_t *next) {
    uint32_t first_root = ESP_SHAPE_ROOT;
    for (uint32_t i = s->count; i-- > 0;) {
        uint32_t *head = s->parent[i] == ESP_SHAPE_ROOT ? &first_root : &first[s->parent[i]];
        next[i] = *head;
        *head = i;
    }
    return first_root;
}

/* Depth first along the links: as deep as the tree may be, no stack is needed. */
static enum esp_status put_tree(struct generator *g, const uint32_t *first, const uint32_t *next,
                                uint32_t root) {
    enum esp_status status = ESP_OK;
    ESP_BUF_LIT(&g->out, "[");
    for (uint32_t v = root; status == ESP_OK && v != ESP_SHAPE_ROOT;) {
        put_json_members(g, v, false);
        if (first[v] != ESP_SHAPE_ROOT) {
            ESP_BUF_LIT(&g->out, ",\"children\":[\n");
            v = first[v];
            continue;
        }
        ESP_BUF_LIT(&g->out, "}");
        while (next[v] == ESP_SHAPE_ROOT && g->shape.parent[v] != ESP_SHAPE_ROOT) {
            v = g->shape.parent[v];
            ESP_BUF_LIT(&g->out, "]}");
        }
        v = next[v];
        if (v != ESP_SHAPE_ROOT) {
            ESP_BUF_LIT(&g->out, ",\n");
        }
        status = flush_full(g);
    }
    ESP_BUF_LIT(&g->out, "]\n");
    return status;
}

static enum esp_status put_nested(struct generator *g) {
    size_t size = (size_t)g->shape.count * sizeof(uint32_t);
    uint32_t *first = esp_big_alloc(g->cli->alloc, size);
    uint32_t *next = esp_big_alloc(g->cli->alloc, size);
    enum esp_status status = ESP_OK;
    if (first && next) {
        memset(first, 0xFF, size); /* ESP_SHAPE_ROOT: none */
        uint32_t root = link_children(&g->shape, first, next);
        status = put_tree(g, first, next, root);
    } else {
        status = esp_fail_nomem(&g->cli->err);
    }
    if (first) {
        esp_big_free(g->cli->alloc, first, size);
    }
    if (next) {
        esp_big_free(g->cli->alloc, next, size);
    }
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

static const char *profile_name(size_t i) {
    return esp_profiles[i].name;
}

static enum esp_status find_profile(struct esp_cli *cli, const char *name,
                                    const struct esp_profile **out) {
    size_t count = 0;
    *out = esp_profile_find(name);
    if (*out) {
        return ESP_OK;
    }
    while (esp_profiles[count].name) {
        count++;
    }
    const char *nearest = esp_cli_nearest(name, profile_name, count);
    cli->hint = "espalier list profiles shows them all";
    return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is no profile%s%s%s", name,
                    nearest ? ": did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static enum esp_status check_options(struct esp_cli *cli, const struct generate_options *o) {
    if (o->nodes == 0 || o->nodes >= ESP_NODE_NONE) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "generate needs --nodes N, from 1 to %u",
                        ESP_NODE_NONE - 1);
    }
    if (o->payload > PAYLOAD_BYTES_MAX) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--payload takes at most %d bytes, not %llu",
                        PAYLOAD_BYTES_MAX, (unsigned long long)o->payload);
    }
    if (o->format == FORMAT_JSON && o->order == SHUFFLED) {
        return esp_fail(&cli->err, ESP_ERR_USAGE,
                        "--order shuffled is not for nested JSON: use --format csv or jsonl");
    }
    return ESP_OK;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct generate_options *o = options;
    const struct esp_profile *profile;
    struct generator g = {.cli = cli, .options = o};
    size_t pool_size = POOL_BYTES + o->payload;
    (void)count;
    enum esp_status status = find_profile(cli, operands[0], &profile);
    if (status == ESP_OK) {
        status = check_options(cli, o);
    }
    if (status != ESP_OK) {
        return status;
    }
    struct esp_rng ids;
    esp_rng_init(&ids, o->seed, STREAM_IDS);
    g.multiplier[0] = esp_rng_u64(&ids) | 1;
    g.multiplier[1] = esp_rng_u64(&ids) | 1;
    esp_buf_init(&g.out, cli->alloc, 4 * OUT_BYTES);
    g.pool = esp_calloc(cli->alloc, pool_size, 1);
    if (!g.pool) {
        return esp_fail_nomem(&cli->err);
    }
    fill_pool(&g, pool_size);
    status = esp_shape_make(profile, (uint32_t)o->nodes, o->seed, cli->alloc, &g.shape, &cli->err);
    if (status == ESP_OK) {
        status = o->format == FORMAT_JSON ? put_nested(&g) : put_in_order(&g);
    }
    if (status == ESP_OK) {
        status = esp_cli_print(cli, &g.out);
    }
    esp_shape_fini(&g.shape, cli->alloc);
    esp_release(cli->alloc, g.pool, pool_size);
    esp_buf_fini(&g.out);
    return status;
}

static const char *const order_names[] = {"parents-first", "shuffled", NULL};
static const char *const format_names[] = {"csv", "json", "jsonl", NULL};

#define OWN(field, kind, flag, argument_text, fallback_text, names, help_text)                     \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct generate_options, field),            \
        .argument = argument_text, .fallback = fallback_text, .choices = names, .help = help_text  \
    }
static const struct esp_option own_options[] = {
    OWN(nodes, ESP_OPT_U64, "nodes", "N", NULL, NULL, "nodes, exactly; k, M and G are allowed"),
    OWN(seed, ESP_OPT_U64, "seed", "S", "1", NULL, "same seed, same tree"),
    OWN(payload, ESP_OPT_U64, "payload", "BYTES", "0", NULL,
        "a further column data with so many bytes of text in every row"),
    OWN(order, ESP_OPT_CHOICE, "order", "ORDER", "parents-first", order_names, "of the rows"),
    OWN(format, ESP_OPT_CHOICE, "format", "FORMAT", "csv", format_names,
        "json is nested, jsonl one object a line"),
    {.name = NULL}};
static const struct esp_option *const tables[] = {own_options, NULL};

const struct esp_command esp_command_generate = {
    .name = "generate",
    .summary = "print a synthetic tree: id, parent_id, name and payload",
    .operands = "PROFILE",
    .required = "--nodes N",
    .details = "espalier list profiles shows the profiles.\n",
    .example = "  espalier generate files --nodes 100k --seed 7 --payload 100 > files.csv\n",
    .options = tables,
    .options_size = sizeof(struct generate_options),
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
