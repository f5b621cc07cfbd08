/*
 * The check of the layout graph: edges lead from a node to a node, edge sets name them all and
 * nothing else, gsi0 are weights, the tree edges make no circle.
 *
 * Edges and what edge sets say of them meet in a table of relations, by the nodes and the type;
 * whichever of the two comes first waits there for the other.
 */
#include "converters/check.h"
#include "converters/graph/graph.h"

enum {
    IS_EDGE = 1,      /* there is such an edge */
    IN_SET = 2,       /* the set of its source names it */
    OTHER_GSI0 = 4,   /* with another gsi0 */
    LEFT_OUT = 8,     /* no edge: the node says that its set leaves the type out */
    IS_USED = 16,     /* and there are such edges */
    TYPE_KNOWN = 32,  /* no edge: the node knows that edges of the type lead to it */
    SLOTS_FIRST = 256 /* power of two */
};

struct relation {
    uint32_t source, other, type; /* numbers; other == ESP_IDMAP_NONE: of the source alone */
    uint32_t next;                /* of the tree edges that leave the same node; position + 1 */
    uint32_t gsi0;                /* hash of what came first */
    uint32_t bits;
};

struct relations {
    struct relation *at;
    uint32_t count, cap;
    uint32_t *slot; /* position + 1; 0 = free */
    uint32_t slot_count;
};

enum state { NEW, ON_THE_WAY, DONE };

struct record {
    bool present;
    uint32_t first; /* tree edge that leaves it; position + 1 */
    enum state state;
};

struct graph_checking {
    struct esp_check check; /* first: the scan passes it on */
    struct esp_idmap types;
    struct relations relations;
    uint32_t tree; /* number of the tree edges' type */
};

static struct record *record_of(const struct graph_checking *g, uint32_t number) {
    return esp_check_record(&g->check, number);
}

/* --- relations ---------------------------------------------------------------------- */

static uint32_t *find_slot(const struct relations *r, uint32_t source, uint32_t other,
                           uint32_t type) {
    uint32_t key[3] = {source, other, type};
    uint32_t i = (uint32_t)esp_hash64(key, sizeof key, 0) & (r->slot_count - 1);
    while (r->slot[i]) {
        const struct relation *at = &r->at[r->slot[i] - 1];
        if (at->source == source && at->other == other && at->type == type) {
            break;
        }
        i = (i + 1) & (r->slot_count - 1);
    }
    return &r->slot[i];
}

static bool grow_slots(struct graph_checking *g) {
    struct relations *r = &g->relations;
    if (2 * ((uint64_t)r->count + 1) <= r->slot_count) {
        return true;
    }
    uint32_t count = r->slot_count ? 2 * r->slot_count : SLOTS_FIRST;
    uint32_t *slot = count ? esp_arena_calloc(&g->check.arena, count, sizeof *slot) : NULL;
    if (!slot) {
        return false;
    }
    r->slot = slot;
    r->slot_count = count;
    for (uint32_t i = 0; i < r->count; i++) {
        *find_slot(r, r->at[i].source, r->at[i].other, r->at[i].type) = i + 1;
    }
    return true;
}

/* The relation, made when it is new; NULL: no memory.  Moves when others are made. */
static struct relation *relate(struct graph_checking *g, uint32_t source, uint32_t other,
                               uint32_t type) {
    struct relations *r = &g->relations;
    if (!grow_slots(g)) {
        return NULL;
    }
    uint32_t *slot = find_slot(r, source, other, type);
    if (*slot == 0) {
        struct relation *grown =
            esp_arena_grow(&g->check.arena, r->at, &r->cap, r->count + 1, sizeof *grown);
        if (!grown) {
            return NULL;
        }
        r->at = grown;
        grown[r->count] = (struct relation){.source = source, .other = other, .type = type};
        *slot = ++r->count;
    }
    return &r->at[*slot - 1];
}

static const struct relation *related(const struct graph_checking *g, uint32_t source,
                                      uint32_t type) {
    const struct relations *r = &g->relations;
    uint32_t at = r->slot_count ? *find_slot(r, source, ESP_IDMAP_NONE, type) : 0;
    return at ? &r->at[at - 1] : NULL;
}

/* What an edge and an entry say of the same is noted; the gsi0 must agree. */
static enum esp_status note(struct graph_checking *g, uint32_t source, uint32_t other,
                            uint32_t type, struct esp_str gsi0, uint32_t bit) {
    struct relation *relation = relate(g, source, other, type);
    uint32_t hash = (uint32_t)esp_hash64(gsi0.ptr, gsi0.len, 0);
    if (!relation) {
        return esp_fail_nomem(g->check.access->err);
    }
    if (relation->bits && relation->gsi0 != hash) {
        relation->bits |= OTHER_GSI0;
    }
    relation->gsi0 = hash;
    if (bit == IS_EDGE && type == g->tree && !(relation->bits & IS_EDGE)) {
        struct record *record = record_of(g, source);
        relation->next = record->first;
        record->first = (uint32_t)(relation - g->relations.at) + 1;
    }
    relation->bits |= bit;
    return ESP_OK;
}

/* --- items -------------------------------------------------------------------------- */

/* The number of the node with a key; *valid: it is the key of a node. */
static enum esp_status number_of(struct graph_checking *g, struct esp_str key, uint32_t *number,
                                 bool *valid) {
    struct esp_str id = key;
    *valid = graph_id(g->check.access->layout, key, &id);
    return esp_check_number(&g->check, id, number);
}

static enum esp_status type_number(struct graph_checking *g, struct esp_str type, uint32_t *out) {
    enum esp_status status = esp_idmap_intern(&g->types, type, out);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(g->check.access->err) : status;
}

static enum esp_status report(struct graph_checking *g, const char *name, uint32_t id,
                              uint32_t other, const char *text) {
    return esp_check_report(&g->check, name, id, other, text);
}

static enum esp_status note_entry(struct graph_checking *g, uint32_t node,
                                  const struct esp_edge *entry) {
    uint32_t other, type;
    bool valid;
    if (!entry->type.len) {
        return report(g, "edge-set", node, ESP_IDMAP_NONE,
                      "the edge set holds a text that names no edge");
    }
    enum esp_status status = number_of(g, entry->key, &other, &valid);
    if (status == ESP_OK) {
        status = type_number(g, entry->type, &type);
    }
    if (status == ESP_OK && !valid) {
        return report(g, "edge-set", node, ESP_IDMAP_NONE,
                      "the edge set names an edge to a key that does not begin with the prefix");
    }
    return status == ESP_OK ? note(g, node, other, type, entry->gsi0, IN_SET) : status;
}

static enum esp_status note_types(struct graph_checking *g, uint32_t node,
                                  const struct esp_value *set, uint32_t bit,
                                  struct esp_arena *scratch) {
    struct esp_str text;
    enum esp_status status = ESP_OK;
    for (size_t pos = 0; status == ESP_OK && esp_set_next(set, &pos, scratch, &text);) {
        uint32_t type;
        status = text.ptr ? type_number(g, text, &type) : esp_fail_nomem(g->check.access->err);
        struct relation *relation = status == ESP_OK ? relate(g, node, ESP_IDMAP_NONE, type) : NULL;
        if (relation) {
            relation->bits |= bit;
        } else {
            status = esp_fail_nomem(g->check.access->err);
        }
    }
    return status;
}

static enum esp_status check_node(struct graph_checking *g, const struct esp_item *item,
                                  struct esp_arena *scratch) {
    struct esp_edge_set set;
    uint32_t node;
    bool valid;
    enum esp_status status = number_of(g, esp_item_text(item, GRAPH_SOURCE), &node, &valid);
    if (status == ESP_OK && !valid) {
        return report(g, "bad-key", node, ESP_IDMAP_NONE,
                      "the key of the node does not begin with the prefix of nodes");
    }
    if (status == ESP_OK) {
        record_of(g, node)->present = true;
        status = esp_edge_set_read(&set, scratch, &item->value[GRAPH_EDGE_SET],
                                   &item->value[GRAPH_OMITTED]);
        status = status == ESP_ERR_NOMEM ? esp_fail_nomem(g->check.access->err) : status;
    }
    if (status == ESP_OK && item->value[GRAPH_GSI0].type != ESP_TYPE_NONE) {
        status = report(g, "bad-gsi0", node, ESP_IDMAP_NONE,
                        "a node has no gsi0: it would be in the index");
    }
    for (uint32_t i = 0; status == ESP_OK && i < set.count; i++) {
        status = note_entry(g, node, &set.edge[i]);
    }
    if (status == ESP_OK) {
        status = note_types(g, node, &item->value[GRAPH_OMITTED], LEFT_OUT, scratch);
    }
    return status == ESP_OK ? note_types(g, node, &item->value[GRAPH_INCOMING], TYPE_KNOWN, scratch)
                            : status;
}

static enum esp_status check_edge(struct graph_checking *g, const struct esp_item *item) {
    struct esp_str gsi0 = esp_item_text(item, GRAPH_GSI0), type, key;
    uint32_t source, other, number;
    bool valid;
    enum esp_status status = number_of(g, esp_item_text(item, GRAPH_SOURCE), &source, &valid);
    if (status != ESP_OK) {
        return status;
    }
    if (!valid) { /* not to be mistaken for the node whose id the key is */
        return report(g, "bad-key", source, ESP_IDMAP_NONE,
                      "the source of an edge does not begin with the prefix of nodes");
    }
    if (!esp_edge_parse_target(esp_item_text(item, GRAPH_TARGET), &type, &key)) {
        return report(g, "bad-key", source, ESP_IDMAP_NONE,
                      "the target of an edge is no type and key of a node");
    }
    status = number_of(g, key, &other, &valid);
    if (status == ESP_OK && !valid) {
        return report(g, "bad-key", source, other,
                      "the key that an edge leads to does not begin with the prefix of nodes");
    }
    if (status == ESP_OK) {
        status = type_number(g, type, &number);
    }
    if (status == ESP_OK &&
        (number == g->tree ? esp_edge_rank(gsi0) < 0 : !esp_edge_weight_valid(gsi0))) {
        status = report(g, "bad-gsi0", source, other,
                        number == g->tree ? "gsi0 of a tree edge is no rank of ten digits"
                                          : "gsi0 of the edge is no weight and role");
    }
    return status == ESP_OK ? note(g, source, other, number, gsi0, IS_EDGE) : status;
}

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct graph_checking *g = ctx;
    struct esp_arena scratch;
    if (!graph_is_node(item)) {
        return check_edge(g, item);
    }
    esp_arena_init(&scratch, g->check.access->session->table->store->alloc, SIZE_MAX);
    enum esp_status status = check_node(g, item, &scratch);
    esp_arena_fini(&scratch);
    return status;
}

/* --- afterwards --------------------------------------------------------------------- */

static const char *set_damage(const struct relation *edge, const struct relation *type) {
    bool left_out = type && type->bits & LEFT_OUT;
    if (edge->bits & IN_SET && left_out) {
        return "the edge set names an edge of a type that it says to leave out";
    }
    if (!(edge->bits & IS_EDGE)) {
        return "the edge set names an edge that is not there";
    }
    if (!(edge->bits & IN_SET)) {
        return left_out ? NULL : "the edge is missing in the edge set";
    }
    return edge->bits & OTHER_GSI0 ? "the edge set names the edge with another gsi0" : NULL;
}

/* An edge, or an entry, with what its nodes say of its type. */
static enum esp_status judge_edge(struct graph_checking *g, uint32_t at) {
    struct relation edge = g->relations.at[at];
    const struct relation *type = related(g, edge.source, edge.type);
    const struct relation *in = related(g, edge.other, edge.type);
    bool from = record_of(g, edge.source)->present, to = record_of(g, edge.other)->present;
    const char *damage = from ? set_damage(&edge, type) : NULL;
    enum esp_status status = ESP_OK;
    if (edge.bits & IS_EDGE && type) {
        g->relations.at[type - g->relations.at].bits |= IS_USED;
    }
    if (edge.bits & IS_EDGE && !from) {
        status = report(g, "edge-without-node", edge.source, edge.other,
                        "the node that the edge leaves does not exist");
    }
    if (status == ESP_OK && edge.bits & IS_EDGE && !to) {
        status = report(g, "edge-without-node", edge.source, edge.other,
                        "the node that the edge leads to does not exist");
    }
    if (status == ESP_OK && damage) {
        status = report(g, "edge-set", edge.source, edge.other, damage);
    }
    if (status == ESP_OK && edge.bits & IS_EDGE && to && edge.type != g->tree &&
        !(in && in->bits & TYPE_KNOWN)) {
        status = report(g, "edge-types", edge.other, edge.source,
                        "the node does not know that edges of this type lead to it");
    }
    return status;
}

static enum esp_status judge(struct graph_checking *g) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < g->relations.count; i++) {
        status = g->relations.at[i].other == ESP_IDMAP_NONE ? ESP_OK : judge_edge(g, i);
    }
    for (uint32_t i = 0; status == ESP_OK && i < g->relations.count; i++) {
        const struct relation *r = &g->relations.at[i];
        if (r->other == ESP_IDMAP_NONE && r->bits & LEFT_OUT && !(r->bits & IS_USED)) {
            status = report(g, "edge-set", r->source, ESP_IDMAP_NONE,
                            "the edge set says to leave out a type of which there is no edge");
        }
    }
    return status;
}

/* The ids on the way from position `from` to its end, as many as fit. */
static enum esp_status report_cycle(struct graph_checking *g, const uint32_t *way, uint32_t from,
                                    uint32_t count) {
    char text[512] = "the parents of this node lead back to it:";
    size_t len = strlen(text);
    for (uint32_t i = from; i < count; i++) {
        struct esp_str id = g->check.ids.id[way[i]];
        if (len + id.len + 8 > sizeof text) {
            memcpy(text + len, " ...", 5);
            break;
        }
        text[len++] = ' ';
        memcpy(text + len, id.ptr, id.len);
        len += id.len;
        text[len] = 0;
    }
    return report(g, "cycle", way[from], way[from + 1 < count ? from + 1 : from], text);
}

/* Everything above a node, depth first; way[] and edge[] have room for every id. */
static enum esp_status check_ways(struct graph_checking *g, uint32_t start, uint32_t *way,
                                  uint32_t *edge) {
    uint32_t count = 0;
    enum esp_status status = ESP_OK;
    way[count] = start;
    edge[count++] = record_of(g, start)->first;
    record_of(g, start)->state = ON_THE_WAY;
    while (status == ESP_OK && count) {
        uint32_t at = edge[count - 1];
        if (!at) {
            record_of(g, way[--count])->state = DONE;
            continue;
        }
        edge[count - 1] = g->relations.at[at - 1].next;
        uint32_t parent = g->relations.at[at - 1].other, from = count;
        enum state state = record_of(g, parent)->state;
        while (state == ON_THE_WAY && way[--from] != parent) {
        }
        if (state == ON_THE_WAY) {
            status = report_cycle(g, way, from, count);
        } else if (state == NEW) {
            way[count] = parent;
            edge[count++] = record_of(g, parent)->first;
            record_of(g, parent)->state = ON_THE_WAY;
        }
    }
    return status;
}

static enum esp_status check_cycles(struct graph_checking *g) {
    uint32_t *way = esp_arena_calloc(&g->check.arena, (size_t)g->check.ids.count + 1, sizeof *way);
    uint32_t *edge =
        esp_arena_calloc(&g->check.arena, (size_t)g->check.ids.count + 1, sizeof *edge);
    enum esp_status status = way && edge ? ESP_OK : esp_fail_nomem(g->check.access->err);
    for (uint32_t i = 0; status == ESP_OK && i < g->check.ids.count; i++) {
        status = record_of(g, i)->state == NEW ? check_ways(g, i, way, edge) : ESP_OK;
    }
    return status;
}

enum esp_status graph_check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct graph_checking g = {.relations = {.count = 0}};
    esp_check_init(&g.check, a, sizeof(struct record), fn, ctx);
    esp_idmap_init(&g.types, &g.check.arena);
    enum esp_status status = type_number(&g, graph_tree_type(a->layout), &g.tree);
    if (status == ESP_OK) {
        status = esp_check_scan(&g.check, check_item);
    }
    if (status == ESP_OK) {
        status = judge(&g);
    }
    if (status == ESP_OK) {
        status = check_cycles(&g);
    }
    esp_check_fini(&g.check);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}
