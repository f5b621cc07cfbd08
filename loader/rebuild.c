#include "loader/rebuild.h"

#include "converters/access.h"
#include "stores/keys.h"

#include <stdlib.h>

enum {
    NODES_AT_ONCE = 1024,  /* emitted before scratch memory is reset */
    QUERIES_AT_ONCE = 256, /* partitions read at once */
    SCAN_SHARE = 3,        /* damaged trees of a third of all items: one scan reads them */
    FEW = 3,               /* so many items may be damaged alike by chance */
};

static const char restored_text[] = "the node's own item is gone, with its payload; an empty one "
                                    "takes its place, because other items tell of the node";

/* How a node stands in the trees that are put together. */
enum standing {
    UNKNOWN,
    ENTERED, /* while its ancestors are followed */
    WHOLE,   /* below a root */
    CUT_OFF, /* below a parent that does not exist, or that nothing tells */
    IN_CYCLE,
};

struct record {
    uint32_t up;      /* union-find: nodes that some item links are one tree */
    uint32_t parent;  /* chosen; ESP_IDMAP_NONE: none */
    uint32_t claims;  /* how many there are ... */
    uint32_t first;   /* ... from this one on, once they are sorted */
    uint32_t items;   /* that are about it */
    uint32_t payload; /* kept item + 1 */
    int64_t order;
    uint8_t standing;
    bool present : 1; /* some item holds its payload */
    bool silent : 1;  /* its own item, which should, does not tell the parent */
    bool below : 1;   /* its own item says that there is a parent */
    bool copied : 1;  /* some item is a copy of it */
    bool found : 1;   /* the check names it */
    bool damaged : 1; /* of a tree's record: some node of it is found */
    bool at_home : 1; /* an item about it has the id as partition key */
    bool needed : 1;  /* not present, but some node's parent */
    bool named : 1;   /* as some node's parent */
    bool told : 1;    /* some item names a parent of it that exists, or says that it is a root */
    bool is_tree : 1; /* other nodes' items name it as their tree */
    bool bare : 1;    /* its own item is gone, and made again */
};

/* Some item says that `parent` is the parent of `node`. */
struct claim {
    uint32_t node, parent; /* ESP_IDMAP_NONE: the node is a root */
    uint32_t kind;         /* enum esp_relation */
    int64_t order;
};

/* An item about `node` is in another partition. */
struct place {
    uint32_t partition, node; /* numbers; a partition's key has one too */
};

/* Where a node stands by its numbers. */
struct span {
    uint32_t node, tree;
    int64_t lft, rgt, depth;
};

/* What one item says. */
struct trace {
    uint32_t node;
    bool own, copy;  /* the node's own item; a copy */
    bool silent;     /* own, and does not tell the parent although no other item does */
    bool below;      /* own, and says that it is no root's */
    int64_t rank;    /* of a copy: the smaller, the rather it is believed */
    uint32_t parent; /* that it claims */
};

/* An item of a damaged tree. */
struct kept {
    struct esp_item item;
    struct trace trace;
    bool wanted; /* the layout makes it, too */
};

struct job {
    struct esp_access *a;
    struct esp_rebuild *out;
    struct esp_images *images;
    struct esp_arena arena;
    struct esp_idmap ids; /* of nodes, parents and partitions */
    struct record *record;
    struct claim *claim;
    struct place *place;
    struct span *span;
    struct kept *kept;
    struct esp_idmap keys;                          /* of kept items; number = position */
    struct esp_arena text;                          /* of one finding */
    uint64_t had[ESP_ATTR_MAX], made[ESP_ATTR_MAX]; /* items with the attribute: in the table,
                                                         of the layout's making */
    uint32_t record_cap, claim_count, claim_cap, place_count, place_cap, kept_count, kept_cap;
    uint32_t span_count, span_cap;
    uint64_t unknown_items; /* that say nothing of a tree */
    struct esp_id_room room;
};

static enum esp_status out_of_memory(const struct job *j) {
    return esp_fail_nomem(j->a->err);
}

static enum esp_status tell(struct job *j, esp_finding_fn *fn, const char *name, uint32_t id,
                            uint32_t other, const char *text) {
    struct esp_finding finding = {.name = name, .id = j->ids.id[id], .text = text};
    if (other != ESP_IDMAP_NONE) {
        finding.other = j->ids.id[other];
    }
    return fn ? fn(j->out->ctx, &finding) : ESP_OK;
}

static enum esp_status leave(struct job *j, const char *name, uint32_t id, uint32_t other,
                             const char *text) {
    j->out->left_count++;
    return tell(j, j->out->left, name, id, other, text);
}

/* --- records ------------------------------------------------------------------------------ */

static enum esp_status number_of(struct job *j, struct esp_str id, uint32_t *out) {
    uint32_t known = j->ids.count;
    struct record *record = NULL;
    if (esp_idmap_intern(&j->ids, id, out) == ESP_OK) {
        record = esp_arena_grow(&j->arena, j->record, &j->record_cap, j->ids.count, sizeof *record);
    }
    if (!record) {
        return out_of_memory(j);
    }
    j->record = record;
    if (*out == known) {
        record[known] = (struct record){.up = known, .parent = ESP_IDMAP_NONE};
    }
    return ESP_OK;
}

static uint32_t tree_of(struct job *j, uint32_t node) {
    struct record *record = j->record;
    while (record[node].up != node) {
        record[node].up = record[record[node].up].up;
        node = record[node].up;
    }
    return node;
}

static bool is_damaged(struct job *j, uint32_t node) {
    return j->record[tree_of(j, node)].damaged;
}

static enum esp_status add_claim(struct job *j, const struct claim *claim) {
    struct claim *grown =
        esp_arena_grow(&j->arena, j->claim, &j->claim_cap, j->claim_count + 1, sizeof *grown);
    if (!grown) {
        return out_of_memory(j);
    }
    j->claim = grown;
    grown[j->claim_count++] = *claim;
    if (claim->parent != ESP_IDMAP_NONE) {
        j->record[tree_of(j, claim->node)].up = tree_of(j, claim->parent);
    }
    return ESP_OK;
}

/* Where an item about the node is to be found again. */
static enum esp_status add_place(struct job *j, uint32_t node, struct esp_str partition) {
    uint32_t number;
    if (esp_str_eq(partition, j->ids.id[node])) {
        j->record[node].at_home = true;
        return ESP_OK;
    }
    enum esp_status status = number_of(j, partition, &number);
    const struct place *last = j->place_count ? &j->place[j->place_count - 1] : NULL;
    if (status != ESP_OK || (last && last->partition == number && last->node == node)) {
        return status;
    }
    struct place *grown =
        esp_arena_grow(&j->arena, j->place, &j->place_cap, j->place_count + 1, sizeof *grown);
    if (!grown) {
        return out_of_memory(j);
    }
    j->place = grown;
    grown[j->place_count++] = (struct place){number, node};
    return ESP_OK;
}

/* --- what an item says -------------------------------------------------------------------- */

/* The link that a view tells, with numbers. */
static enum esp_status link_of(struct job *j, const struct esp_node_view *view,
                               enum esp_relation kind, struct claim *claim) {
    *claim = (struct claim){.parent = ESP_IDMAP_NONE, .kind = kind, .order = view->order};
    enum esp_status status = number_of(j, view->id, &claim->node);
    return status == ESP_OK && view->parent_id.len ? number_of(j, view->parent_id, &claim->parent)
                                                   : status;
}

/* *kind NONE: the item tells no link.  trace->node is ESP_IDMAP_NONE when it says nothing. */
static enum esp_status trace_item(struct job *j, const struct esp_item *item, struct trace *trace,
                                  struct claim *claim) {
    const struct esp_layout *l = j->a->layout;
    struct esp_node_view view;
    enum esp_status status = ESP_OK;
    *trace = (struct trace){.node = ESP_IDMAP_NONE, .parent = ESP_IDMAP_NONE};
    *claim = (struct claim){.kind = ESP_RELATION_NONE};
    if (esp_layout_view(l, item, &j->room, &view)) {
        status =
            link_of(j, &view, view.parent_id.ptr ? ESP_RELATION_OWN : ESP_RELATION_NONE, claim);
        *trace = (struct trace){.node = claim->node, .own = true, .parent = claim->parent};
        trace->silent = !view.parent_id.ptr && !l->ops->relation;
        trace->below = view.depth > 0;
        return status;
    }
    enum esp_relation kind =
        l->ops->relation ? l->ops->relation(l, item, &view) : ESP_RELATION_NONE;
    if (kind != ESP_RELATION_NONE) {
        status = link_of(j, &view, kind, claim);
        *trace = (struct trace){.node = claim->node, .parent = claim->parent};
    }
    if (status == ESP_OK && l->ops->copy && l->ops->copy(l, item, &view)) {
        trace->copy = true;
        trace->rank = view.order;
        status = number_of(j, view.id, &trace->node);
    }
    return status;
}

static enum esp_status leave_item(struct job *j, const struct esp_item *item) {
    j->unknown_items++;
    esp_arena_reset(&j->text);
    struct esp_str key = esp_item_key_text(&j->a->layout->schema, item, &j->text);
    if (!key.ptr) {
        return out_of_memory(j);
    }
    struct esp_finding finding = {
        .name = "unknown-item", .id = key, .text = "the item does not tell what node it is of"};
    j->out->left_count++;
    return j->out->left ? j->out->left(j->out->ctx, &finding) : ESP_OK;
}

static void count_attributes(const struct esp_schema *schema, const struct esp_item *item,
                             uint64_t *count) {
    for (size_t i = 0; i < schema->attr_count; i++) {
        count[i] += item->value[i].type != ESP_TYPE_NONE;
    }
}

/* The interval that the item has, if there are such. */
static enum esp_status add_span(struct job *j, const struct esp_item *item, uint32_t node) {
    struct esp_interval interval;
    uint32_t tree;
    if (!j->a->layout->ops->interval || !j->a->layout->ops->interval(item, &interval)) {
        return ESP_OK;
    }
    enum esp_status status = number_of(j, interval.tree, &tree);
    struct span *grown =
        esp_arena_grow(&j->arena, j->span, &j->span_cap, j->span_count + 1, sizeof *grown);
    if (status != ESP_OK || !grown) {
        return out_of_memory(j);
    }
    j->span = grown;
    grown[j->span_count++] = (struct span){node, tree, interval.lft, interval.rgt, interval.depth};
    j->record[tree].is_tree = j->record[tree].is_tree || tree != node;
    return ESP_OK;
}

/* What the item says of its node's parent, if it does. */
static enum esp_status add_hint(struct job *j, const struct esp_item *item) {
    const struct esp_layout *l = j->a->layout;
    struct esp_id_room room[2];
    struct esp_node_view view;
    struct claim claim;
    if (!l->ops->hint || !l->ops->hint(l, item, room, &view)) {
        return ESP_OK;
    }
    enum esp_status status = link_of(j, &view, ESP_RELATION_COPY, &claim);
    return status == ESP_OK ? add_claim(j, &claim) : status;
}

static enum esp_status survey_item(void *ctx, const struct esp_item *item) {
    struct job *j = ctx;
    const struct esp_schema *schema = &j->a->layout->schema;
    struct trace trace;
    struct claim claim;
    if (esp_item_reserved(schema, item)) {
        return ESP_OK;
    }
    j->out->items++;
    count_attributes(schema, item, j->had);
    enum esp_status status = trace_item(j, item, &trace, &claim);
    if (status == ESP_OK && trace.node == ESP_IDMAP_NONE) {
        return leave_item(j, item);
    }
    if (status == ESP_OK && claim.kind != ESP_RELATION_NONE) {
        status = add_claim(j, &claim);
    }
    if (status == ESP_OK) {
        struct record *record = &j->record[trace.node];
        record->items++;
        record->present = record->present || trace.own || trace.copy;
        record->copied = record->copied || trace.copy;
        record->silent = record->silent || trace.silent;
        record->below = record->below || trace.below;
        status = add_place(j, trace.node, esp_item_text(item, schema->pk));
    }
    if (status == ESP_OK) {
        status = add_span(j, item, trace.node);
    }
    if (status == ESP_OK) {
        status = add_hint(j, item);
    }
    return status;
}

/* --- which nodes, which parents ----------------------------------------------------------- */

static enum esp_status leave_finding(void *ctx, const struct esp_finding *finding) {
    struct job *j = ctx;
    j->out->left_count++;
    return j->out->left ? j->out->left(j->out->ctx, finding) : ESP_OK;
}

/* Does the layout mend such damage? */
static bool is_mended(const struct esp_layout *l, const char *name) {
    bool mended = true;
    for (const char *const *at = l->ops->not_mended; at && *at; at++) {
        mended = mended && strcmp(*at, name) != 0;
    }
    return mended;
}

static enum esp_status note_finding(void *ctx, const struct esp_finding *finding) {
    struct job *j = ctx;
    struct esp_str id[] = {finding->id, finding->other};
    enum esp_status status = ESP_OK;
    j->out->findings++;
    for (size_t i = 0; status == ESP_OK && i < 2; i++) {
        uint32_t number;
        if (id[i].len) {
            status = number_of(j, id[i], &number);
            j->record[status == ESP_OK ? number : 0].found = true;
        }
    }
    if (status == ESP_OK && j->out->found) {
        status = j->out->found(j->out->ctx, finding);
    }
    return status == ESP_OK && !is_mended(j->a->layout, finding->name) ? leave_finding(j, finding)
                                                                       : status;
}

/* By node; the node's own word first, then what copies of it tell. */
static int by_node(const void *a, const void *b) {
    const struct claim *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    if (x->kind != y->kind) {
        return x->kind > y->kind ? -1 : 1;
    }
    if (x->parent != y->parent) {
        return x->parent < y->parent ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The strongest of a node's claims: of a parent that exists, then one that most items tell.  Only
 * claims of the first kind are followed; they are *own many. */
static const struct claim *best_claim(const struct job *j, const struct record *r, uint32_t *own) {
    const struct claim *claims = j->claim + r->first, *best = NULL;
    uint32_t most = 0, next = 0;
    for (*own = 0; *own < r->claims && claims[*own].kind == claims->kind; ++*own) {
    }
    uint32_t other = *own;
    for (uint32_t i = 0; i < *own; i = next) {
        uint32_t parent = claims[i].parent;
        bool exists = parent == ESP_IDMAP_NONE || j->record[parent].present;
        uint32_t weight = exists ? r->claims + 1 : 0;
        for (next = i; next < *own && claims[next].parent == parent; next++) {
            weight++;
        }
        for (; other < r->claims && claims[other].parent <= parent; other++) {
            weight += claims[other].parent == parent;
        }
        if (!best || weight > most) {
            best = &claims[i];
            most = weight;
        }
    }
    return best;
}

/* Follow the strongest claim of a node; what is told of the others is who is not believed. */
static enum esp_status choose_parent(struct job *j, uint32_t node) {
    struct record *r = &j->record[node];
    const struct claim *claims = j->claim + r->first;
    uint32_t own;
    const struct claim *best = best_claim(j, r, &own);
    enum esp_status status = ESP_OK;
    r->parent = best->parent;
    r->order = best->order;
    for (uint32_t i = 0; status == ESP_OK && i < own; i++) {
        bool again = i && claims[i].parent == claims[i - 1].parent;
        if (claims[i].parent != best->parent && !again) {
            status = tell(j, j->out->chosen, "two-parents", node, best->parent,
                          best->parent == ESP_IDMAP_NONE
                              ? "its items name several parents; it is taken for a root"
                              : "its items name several parents; this one is followed");
        }
    }
    return status;
}

static int by_lft(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    if (x->tree != y->tree) {
        return x->tree < y->tree ? -1 : 1;
    }
    if (x->lft != y->lft) {
        return x->lft < y->lft ? -1 : 1;
    }
    return x->rgt > y->rgt ? -1 : x->rgt < y->rgt;
}

/* A node whose parent its item does not tell, or not rightly: others name it as their tree, or the
 * smallest interval around its own that is one level up is its parent's. */
static enum esp_status ask_spans_of(struct job *j, const struct span *span, const uint32_t *open,
                                    uint32_t open_count) {
    struct claim claim = {span->node, ESP_IDMAP_NONE, ESP_RELATION_OWN, span->lft};
    struct record *r = &j->record[span->node];
    if (r->told) {
        return ESP_OK;
    }
    if (r->is_tree && r->silent) {
        return add_claim(j, &claim);
    }
    for (uint32_t i = open_count; i > 0; i--) {
        const struct span *around = &j->span[open[i - 1]];
        if (around->rgt > span->rgt && around->depth == span->depth - 1) {
            claim.parent = around->node;
            return add_claim(j, &claim);
        }
    }
    return ESP_OK;
}

static enum esp_status ask_spans(struct job *j) {
    uint32_t *open = esp_arena_calloc(&j->arena, (size_t)j->span_count + 1, sizeof *open);
    uint32_t open_count = 0;
    enum esp_status status = open ? ESP_OK : out_of_memory(j);
    for (uint32_t i = 0; i < j->claim_count; i++) {
        uint32_t parent = j->claim[i].parent;
        struct record *r = &j->record[j->claim[i].node];
        r->told = r->told || parent == ESP_IDMAP_NONE || j->record[parent].present;
    }
    if (j->span_count) {
        qsort(j->span, j->span_count, sizeof *j->span, by_lft);
    }
    for (uint32_t i = 0; status == ESP_OK && i < j->span_count; i++) {
        const struct span *span = &j->span[i];
        open_count = i && span[-1].tree == span->tree ? open_count : 0;
        while (open_count && j->span[open[open_count - 1]].rgt < span->lft) {
            open_count--;
        }
        status = ask_spans_of(j, span, open, open_count);
        open[open_count++] = i;
    }
    return status;
}

/* Where links are items of their own, they may be all that is left of a node.  Its own word on its
 * parent tells that it was there, or its parent's word and its child's.  A parent's word alone is
 * that of a dangling copy. */
static void find_bare(struct job *j) {
    for (uint32_t i = 0; i < j->claim_count; i++) {
        if (j->claim[i].parent != ESP_IDMAP_NONE) {
            j->record[j->claim[i].parent].named = true;
        }
    }
    for (uint32_t i = 0; i < j->ids.count; i++) {
        struct record *r = &j->record[i];
        if (!r->present && r->claims && is_damaged(j, i)) {
            r->bare = r->named || j->claim[r->first].kind == ESP_RELATION_OWN;
            r->present = r->bare;
        }
    }
}

static enum esp_status choose_parents(struct job *j) {
    enum esp_status status = ask_spans(j);
    if (j->claim_count) {
        qsort(j->claim, j->claim_count, sizeof *j->claim, by_node);
    }
    for (uint32_t i = 0; i < j->claim_count; i++) {
        struct record *r = &j->record[j->claim[i].node];
        r->first = r->claims ? r->first : i;
        r->claims++;
    }
    for (uint32_t i = 0; i < j->ids.count; i++) {
        struct record *tree = &j->record[tree_of(j, i)];
        tree->damaged = tree->damaged || j->record[i].found;
    }
    if (j->a->layout->ops->relation) {
        find_bare(j);
    }
    for (uint32_t i = 0; status == ESP_OK && i < j->ids.count; i++) {
        if (j->record[i].claims && is_damaged(j, i)) {
            status = choose_parent(j, i);
        }
    }
    return status;
}

/* Nothing tells the parent, although there may be one: copies are for ancestors. */
static bool has_lost_parent(const struct record *r) {
    return (r->copied || r->silent || r->below) && r->claims == 0;
}

/* The standing of a node whose parent is no reason to go on; UNKNOWN: it is its parent's. */
static enum esp_status judge_node(struct job *j, uint32_t node, enum standing *out) {
    struct record *r = &j->record[node];
    *out = UNKNOWN;
    if (has_lost_parent(r)) {
        *out = CUT_OFF;
        return leave(j, "lost-parent", node, ESP_IDMAP_NONE,
                     "no item tells the node's parent; it and what is below it stay as they are");
    }
    if (r->parent == ESP_IDMAP_NONE) {
        *out = WHOLE;
        return ESP_OK;
    }
    struct record *parent = &j->record[r->parent];
    if (!parent->present) {
        *out = CUT_OFF;
        parent->needed = true;
        return leave(j, "missing-parent", node, r->parent,
                     "the parent does not exist; the node and what is below it stay as they are");
    }
    if (parent->standing == ENTERED) {
        *out = IN_CYCLE;
        return leave(
            j, "cycle", node, r->parent,
            "the node would be its own ancestor; it and what is below it stay as they are");
    }
    *out = parent->standing;
    return ESP_OK;
}

/* Follow the ancestors up to one whose standing is known, then give it to all on the way. */
static enum esp_status judge_way(struct job *j, uint32_t node) {
    enum standing standing = UNKNOWN;
    enum esp_status status = ESP_OK;
    uint32_t at = node;
    while (status == ESP_OK && standing == UNKNOWN) {
        j->record[at].standing = ENTERED;
        status = judge_node(j, at, &standing);
        at = j->record[at].parent;
    }
    for (at = node; at != ESP_IDMAP_NONE && j->record[at].standing == ENTERED;
         at = j->record[at].parent) {
        j->record[at].standing = (uint8_t)standing;
    }
    return status;
}

static enum esp_status judge_all(struct job *j, uint32_t *whole, uint64_t *items) {
    enum esp_status status = ESP_OK;
    *whole = 0;
    *items = 0;
    for (uint32_t i = 0; status == ESP_OK && i < j->ids.count; i++) {
        if (!is_damaged(j, i)) {
            continue;
        }
        *items += j->record[i].items;
        if (!j->record[i].present) {
            continue;
        }
        if (j->record[i].standing == UNKNOWN) {
            status = judge_way(j, i);
        }
        *whole += j->record[i].standing == WHOLE;
        j->out->trees += j->record[i].standing == WHOLE && j->record[i].parent == ESP_IDMAP_NONE;
    }
    j->out->nodes = *whole;
    for (uint32_t i = 0; status == ESP_OK && i < j->ids.count; i++) {
        if (j->record[i].bare && j->record[i].standing == WHOLE) {
            j->out->restored_count++;
            status = tell(j, j->out->restored, "restored-without-payload", i, j->record[i].parent,
                          restored_text);
        }
    }
    return status;
}

/* --- the items of damaged trees ------------------------------------------------------------ */

/* Which of two items is the rather believed about the payload: the node's own at the place that
 * was chosen, another one of its own, a copy near to it. */
static bool is_better(const struct job *j, const struct kept *a, const struct kept *b) {
    uint32_t parent = j->record[a->trace.node].parent;
    if (a->trace.own != b->trace.own) {
        return a->trace.own;
    }
    return a->trace.own ? a->trace.parent == parent && b->trace.parent != parent
                        : a->trace.rank < b->trace.rank;
}

static enum esp_status keep_item(void *ctx, const struct esp_item *item) {
    struct job *j = ctx;
    const struct esp_schema *schema = &j->a->layout->schema;
    struct trace trace;
    struct claim claim;
    struct esp_key key;
    uint32_t number;
    if (esp_item_reserved(schema, item)) {
        return ESP_OK;
    }
    enum esp_status status = trace_item(j, item, &trace, &claim);
    if (status != ESP_OK || trace.node == ESP_IDMAP_NONE || !is_damaged(j, trace.node)) {
        return status;
    }
    esp_key_of_item(schema, item, &key);
    if (esp_idmap_intern(&j->keys, esp_key_str(&key), &number) != ESP_OK) {
        return out_of_memory(j);
    }
    struct kept *grown =
        esp_arena_grow(&j->arena, j->kept, &j->kept_cap, j->keys.count, sizeof *grown);
    if (!grown) {
        return out_of_memory(j);
    }
    j->kept = grown;
    if (number < j->kept_count) {
        return ESP_OK; /* a partition was read twice */
    }
    grown[number] = (struct kept){.trace = trace};
    if (esp_item_dup(schema, &j->arena, item, &grown[number].item) != ESP_OK) {
        return out_of_memory(j);
    }
    j->kept_count++;
    struct record *r = &j->record[trace.node];
    bool tells = trace.own || trace.copy;
    if (tells && (!r->payload || is_better(j, &grown[number], &grown[r->payload - 1]))) {
        r->payload = number + 1;
    }
    return ESP_OK;
}

/* Numbers of the partitions in which items of damaged trees are. */
static enum esp_status list_partitions(struct job *j, uint32_t **out, uint32_t *count) {
    bool *listed = esp_arena_calloc(&j->arena, (size_t)j->ids.count + 1, sizeof *listed);
    uint32_t *list = esp_arena_calloc(&j->arena, (size_t)j->ids.count + 1, sizeof *list);
    *count = 0;
    if (!listed || !list) {
        return out_of_memory(j);
    }
    for (uint32_t i = 0; i < j->ids.count; i++) {
        listed[i] = j->record[i].at_home && is_damaged(j, i);
    }
    for (uint32_t i = 0; i < j->place_count; i++) {
        bool damaged = is_damaged(j, j->place[i].node);
        listed[j->place[i].partition] = listed[j->place[i].partition] || damaged;
    }
    for (uint32_t i = 0; i < j->ids.count; i++) {
        list[*count] = i;
        *count += listed[i];
    }
    *out = list;
    return ESP_OK;
}

/* One partition's items are queried; without a sort key there is one, which is got. */
static enum esp_status read_partitions(struct job *j, const uint32_t *list, uint32_t n) {
    const struct esp_schema *schema = &j->a->layout->schema;
    struct esp_item *keys = esp_arena_calloc(j->a->scratch, (size_t)n + 1, sizeof *keys);
    struct esp_query *queries = esp_arena_calloc(j->a->scratch, (size_t)n + 1, sizeof *queries);
    if (!keys || !queries) {
        return out_of_memory(j);
    }
    for (uint32_t i = 0; i < n; i++) {
        keys[i].value[schema->pk] = esp_s(j->ids.id[list[i]]);
        queries[i] = (struct esp_query){.index = ESP_PRIMARY,
                                        .pk = keys[i].value[schema->pk],
                                        .op = ESP_ANY,
                                        .consistent = true};
    }
    return schema->sk < 0
               ? esp_session_get(j->a->session, keys, n, true, keep_item, j, j->a->err)
               : esp_session_query_many(j->a->session, queries, n, keep_item, j, j->a->err);
}

static enum esp_status read_damaged(struct job *j, uint64_t items) {
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = true};
    uint32_t *list, count;
    if (items > j->out->items / SCAN_SHARE) {
        return esp_session_scan(j->a->session, &scan, keep_item, j, j->a->err);
    }
    enum esp_status status = list_partitions(j, &list, &count);
    for (uint32_t i = 0; status == ESP_OK && i < count; i += QUERIES_AT_ONCE) {
        esp_arena_reset(j->a->scratch);
        status =
            read_partitions(j, list + i, count - i < QUERIES_AT_ONCE ? count - i : QUERIES_AT_ONCE);
    }
    return status;
}

/* --- the trees as they should be ----------------------------------------------------------- */

/* What sorting compares: siblings by order, then id. */
struct sibling {
    uint32_t node, parent;
    int64_t order;
    struct esp_str id;
};

static int by_place(const void *a, const void *b) {
    const struct sibling *x = a, *y = b;
    if (x->parent != y->parent) {
        return x->parent < y->parent ? -1 : 1;
    }
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    return esp_str_cmp(x->id, y->id);
}

static struct sibling *sort_siblings(struct job *j, uint32_t count) {
    struct sibling *list = esp_arena_calloc(&j->arena, (size_t)count + 1, sizeof *list);
    uint32_t n = 0;
    for (uint32_t i = 0; list && i < j->ids.count; i++) {
        const struct record *r = &j->record[i];
        /* A node without payload has vanished since the survey: another writer is at work. */
        if (r->standing == WHOLE && n < count) {
            list[n++] = (struct sibling){i, r->parent, r->order, j->ids.id[i]};
        }
    }
    if (list && n) {
        qsort(list, n, sizeof *list, by_place);
    }
    return list;
}

static enum esp_status add_node(struct job *j, struct esp_forest_builder *builder,
                                const struct sibling *node) {
    const struct record *r = &j->record[node->node];
    struct esp_record row = {.id = node->id};
    if (!r->payload && !r->bare) {
        return esp_fail(j->a->err, ESP_ERR_CONFLICT,
                        "the node '%.*s' vanished while the table was read: another writer is at "
                        "work",
                        ESP_FMT(node->id));
    }
    if (r->payload) {
        row.data = j->kept[r->payload - 1].item.data;
    }
    if (node->parent != ESP_IDMAP_NONE) {
        row.parent_id = j->ids.id[node->parent];
    }
    return esp_forest_builder_add(builder, &row, j->a->err);
}

static enum esp_status build(struct job *j, uint32_t count, struct esp_forest **forest) {
    const struct esp_forest_options options = {.source = NULL};
    struct esp_forest_builder *builder = NULL;
    struct sibling *list = sort_siblings(j, count);
    enum esp_status status =
        list ? esp_forest_builder_new(j->arena.alloc, &options, &builder, j->a->err)
             : out_of_memory(j);
    for (uint32_t i = 0; status == ESP_OK && i < count; i++) {
        status = add_node(j, builder, &list[i]);
    }
    if (status != ESP_OK) {
        esp_forest_builder_free(builder);
        return status;
    }
    return esp_forest_freeze(builder, forest, j->a->err);
}

/* An item as the layout makes it: is it in the table like that? */
static enum esp_status compare_item(void *ctx, const struct esp_item *item) {
    struct job *j = ctx;
    const struct esp_schema *schema = &j->a->layout->schema;
    struct esp_image image = {.has_after = true, .after = *item};
    struct esp_key key;
    count_attributes(schema, item, j->made);
    esp_key_of_item(schema, item, &key);
    uint32_t at = esp_idmap_find(&j->keys, esp_key_str(&key));
    if (at != ESP_IDMAP_NONE) {
        struct kept *kept = &j->kept[at];
        kept->wanted = true;
        image.has_before = true;
        image.before = kept->item;
        if (esp_item_equal(schema, &kept->item, item)) {
            return ESP_OK;
        }
    }
    return esp_images_add(j->images, &image, j->a->err);
}

static enum esp_status compare_items(struct job *j, const struct esp_forest *forest) {
    const struct esp_layout *l = j->a->layout;
    enum esp_status status = l->ops->validate(l, forest, j->a->err);
    for (esp_node v = 0; status == ESP_OK && v < forest->count; v += NODES_AT_ONCE) {
        uint32_t n = forest->count - v < NODES_AT_ONCE ? forest->count - v : NODES_AT_ONCE;
        esp_arena_reset(j->a->scratch);
        status = l->ops->emit(l, forest, v, n, j->a->scratch, compare_item, j);
    }
    return status == ESP_ERR_NOMEM ? out_of_memory(j) : status;
}

/* Items that no node makes go, if their node is whole, or if there is no such node at all. */
static enum esp_status delete_items(struct job *j) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < j->kept_count; i++) {
        const struct kept *kept = &j->kept[i];
        const struct record *r = &j->record[kept->trace.node];
        bool may_go = r->present ? r->standing == WHOLE : !r->needed;
        if (!kept->wanted && may_go) {
            struct esp_image image = {.has_before = true, .before = kept->item, .stage = 1};
            status = esp_images_add(j->images, &image, j->a->err);
        }
    }
    return status;
}

/* --- settings that are not the table's ------------------------------------------------------ */

/* With another separator, prefix or option than the table was made with, items tell something
 * else, or nothing: what is put together then is not what was.  A cut edit leaves some items that
 * do not tell, never most of them, and never takes every parent away. */
static enum esp_status refuse_unreadable(struct job *j) {
    uint64_t nodes = 0, silent = 0, parents = 0;
    for (uint32_t i = 0; i < j->ids.count; i++) {
        nodes += j->record[i].present;
        silent += j->record[i].silent;
    }
    for (uint32_t i = 0; i < j->claim_count; i++) {
        parents += j->claim[i].parent != ESP_IDMAP_NONE;
    }
    uint64_t unreadable = j->unknown_items + silent;
    if (unreadable <= FEW || (parents && silent <= nodes / 2)) {
        return ESP_OK;
    }
    return esp_fail(j->a->err, ESP_ERR_REFUSED,
                    "%llu of %llu items do not tell their node or its parent: the table was made "
                    "with another separator, prefix or attribute name, or other options of the "
                    "layout; nothing is written",
                    (unsigned long long)unreadable, (unsigned long long)j->out->items);
}

/* An attribute that no item has, though most would get it. */
static enum esp_status refuse_attributes(const struct job *j) {
    const struct esp_schema *schema = &j->a->layout->schema;
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (j->had[i] == 0 && j->made[i] > FEW) {
            return esp_fail(j->a->err, ESP_ERR_REFUSED,
                            "no item has the attribute '%.*s', which %llu would get: the table was "
                            "made with another attribute name, or other options of the layout; "
                            "nothing is written",
                            ESP_FMT(schema->attr[i].name), (unsigned long long)j->made[i]);
        }
    }
    return ESP_OK;
}

/* --- all of it ------------------------------------------------------------------------------ */

static enum esp_status put_together(struct job *j) {
    uint32_t whole;
    uint64_t items;
    struct esp_forest *forest = NULL;
    enum esp_status status = refuse_unreadable(j);
    if (status == ESP_OK) {
        status = choose_parents(j);
    }
    if (status == ESP_OK) {
        status = judge_all(j, &whole, &items);
    }
    if (status == ESP_OK) {
        status = read_damaged(j, items);
    }
    if (status == ESP_OK && whole) {
        status = build(j, whole, &forest);
        if (status == ESP_OK) {
            status = compare_items(j, forest);
        }
        if (status == ESP_OK) {
            status = refuse_attributes(j);
        }
        esp_forest_free(forest);
    }
    return status == ESP_OK ? delete_items(j) : status;
}

/* --- layouts that mend themselves ----------------------------------------------------------- */

static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    struct job *j = ctx;
    const struct esp_schema *schema = &j->a->layout->schema;
    if (!esp_item_reserved(schema, item)) {
        j->out->items++;
        count_attributes(schema, item, j->had);
    }
    return ESP_OK;
}

static enum esp_status tell_restored(struct job *j, const struct esp_item *item) {
    struct esp_finding finding = {.name = "restored-without-payload", .text = restored_text};
    struct esp_node_view node;
    if (esp_layout_view(j->a->layout, item, &j->room, &node)) {
        finding.id = node.id;
    }
    j->out->restored_count++;
    return j->out->restored ? j->out->restored(j->out->ctx, &finding) : ESP_OK;
}

static enum esp_status add_mended(void *ctx, const struct esp_item *before,
                                  const struct esp_item *after) {
    struct job *j = ctx;
    struct esp_image image = {.has_before = before, .has_after = true, .after = *after};
    enum esp_status status = before ? ESP_OK : tell_restored(j, after);
    if (before) {
        image.before = *before;
    }
    j->out->nodes++;
    count_attributes(&j->a->layout->schema, after, j->made);
    return status == ESP_OK ? esp_images_add(j->images, &image, j->a->err) : status;
}

static enum esp_status mend_found(struct job *j) {
    struct esp_mend mend = {.image = add_mended, .left = leave_finding, .ctx = j};
    struct esp_str *id = esp_arena_calloc(&j->arena, (size_t)j->ids.count + 1, sizeof *id);
    if (!id) {
        return out_of_memory(j);
    }
    for (uint32_t i = 0; i < j->ids.count; i++) {
        id[mend.count] = j->ids.id[i];
        mend.count += j->record[i].found;
    }
    mend.id = id;
    enum esp_status status = j->a->layout->ops->mend(j->a, &mend);
    return status == ESP_OK ? refuse_attributes(j) : status;
}

enum esp_status esp_rebuild_plan(struct esp_access *a, struct esp_rebuild *rebuild,
                                 struct esp_images *images) {
    bool mends = a->layout->ops->mend != NULL;
    struct job j = {.a = a, .out = rebuild, .images = images};
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = true};
    bool consistent = a->consistent;
    esp_arena_init(&j.arena, a->session->table->store->alloc, SIZE_MAX);
    esp_arena_init(&j.text, a->session->table->store->alloc, SIZE_MAX);
    esp_idmap_init(&j.ids, &j.arena);
    esp_idmap_init(&j.keys, &j.arena);
    rebuild->findings = rebuild->trees = rebuild->nodes = 0;
    rebuild->left_count = rebuild->restored_count = rebuild->items = 0;
    a->consistent = true;
    enum esp_status status = a->layout->ops->check(a, note_finding, &j);
    if (status == ESP_OK && rebuild->findings) {
        status = esp_session_scan(a->session, &scan, mends ? count_item : survey_item, &j, a->err);
        if (status == ESP_OK) {
            status = mends ? mend_found(&j) : put_together(&j);
        }
    }
    a->consistent = consistent;
    esp_arena_fini(&j.text);
    esp_arena_fini(&j.arena);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}
