/*
 * A run's pairs lie in slabs as blocks: {u32 bytes of the key, u32 bytes of the record, u32
 * ref of the item} key record, at multiples of 8 bytes.  A ref is the slab in the upper bits and
 * the place in units of 8 bytes in the lower ones.
 */
#include "stores/bulk_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    REF_PLACE_BITS = 20,
    BLOCK_ALIGN = 8,
    SLAB_BYTES_FIRST = 64 << 10,
    SLAB_BYTES_MAX = BLOCK_ALIGN << REF_PLACE_BITS,
    BLOCK_HEAD_BYTES = 12,
    FILE_HEAD_BYTES = 16, /* u32 bytes of the key, u32 of the record, u64 sequence */
    FILE_BUFFER_BYTES = 256 << 10,
    FILE_DROP_BYTES = 4 << 20 /* read, and given back at once */
};

struct block {
    uint32_t key_len, record_len, item_ref;
    const char *bytes;
};

static const char *address_of(const struct bulk_run *run, uint32_t ref) {
    return run->slab[ref >> REF_PLACE_BITS] +
           (size_t)(ref & ((1U << REF_PLACE_BITS) - 1)) * BLOCK_ALIGN;
}

static struct block block_at(const struct bulk_run *run, uint32_t ref) {
    struct block block;
    const char *at = address_of(run, ref);
    memcpy(&block, at, BLOCK_HEAD_BYTES);
    block.bytes = at + BLOCK_HEAD_BYTES;
    return block;
}

struct bulk_run *bulk_run_new(const struct esp_alloc *alloc, unsigned list_count, uint64_t number) {
    struct bulk_run *run = esp_calloc(alloc, 1, sizeof *run);
    if (run) {
        run->alloc = alloc;
        run->number = number;
        run->list_count = list_count;
        run->fd = -1;
    }
    return run;
}

static void free_memory(struct bulk_run *run) {
    for (size_t i = 0; i < run->slab_count; i++) {
        esp_big_free(run->alloc, run->slab[i], run->slab_bytes[i]);
    }
    for (unsigned i = 0; i < run->list_count; i++) {
        struct bulk_list *list = &run->list[i];
        esp_release(run->alloc, list->sort, list->cap * sizeof *list->sort);
        list->sort = NULL;
        list->cap = 0;
    }
    run->slab_count = 0;
    run->bytes = 0;
}

void bulk_run_free(struct bulk_run *run) {
    if (run) {
        free_memory(run);
        if (run->fd >= 0) {
            close(run->fd);
        }
        esp_release(run->alloc, run, sizeof *run);
    }
}

size_t bulk_run_need(struct esp_str key, struct esp_str record) {
    return BLOCK_HEAD_BYTES + key.len + record.len + BLOCK_ALIGN + sizeof(struct bulk_sort);
}

/* --- collecting ----------------------------------------------------------------- */

static bool add_slab(struct bulk_run *run, size_t need) {
    size_t bytes = run->slab_count ? 4 * run->slab_bytes[run->slab_count - 1] : SLAB_BYTES_FIRST;
    bytes = bytes < SLAB_BYTES_MAX ? bytes : SLAB_BYTES_MAX;
    bytes = bytes < need ? need : bytes;
    if (run->slab_count == BULK_SLABS_MAX) {
        return false;
    }
    char *slab = esp_big_alloc(run->alloc, bytes);
    if (!slab) {
        return false;
    }
    run->slab[run->slab_count] = slab;
    run->slab_bytes[run->slab_count++] = bytes;
    run->slab_used = 0;
    run->bytes += bytes;
    return true;
}

static bool reserve_sort(struct bulk_run *run, struct bulk_list *list) {
    if (list->count < list->cap) {
        return true;
    }
    size_t cap = list->cap ? 2 * list->cap : 1024;
    struct bulk_sort *sort =
        esp_resize(run->alloc, list->sort, list->cap * sizeof *sort, cap * sizeof *sort);
    if (!sort) {
        return false;
    }
    run->bytes += (cap - list->cap) * sizeof *sort;
    list->sort = sort;
    list->cap = cap;
    return true;
}

/* The key's 8 bytes at a depth, zero padded. */
static uint64_t head_at(const char *key, size_t len, size_t depth) {
    uint64_t head = 0;
    if (depth + sizeof head <= len) {
        memcpy(&head, key + depth, sizeof head);
    } else if (depth < len) {
        memcpy(&head, key + depth, len - depth);
    }
    return __builtin_bswap64(head);
}

/* Keys of one list all begin with the same byte. */
enum { DEPTH_FIRST = 1 };

static enum esp_status put_block(struct bulk_run *run, unsigned list, struct esp_str key,
                                 struct esp_str record, const uint32_t *item_ref, uint32_t *ref,
                                 struct esp_error *err) {
    size_t need = BLOCK_HEAD_BYTES + key.len + record.len;
    need = (need + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    if (need > SLAB_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "an item of %zu bytes is too long to be loaded", need);
    }
    if (run->slab_count == 0 || run->slab_bytes[run->slab_count - 1] - run->slab_used < need) {
        if (!add_slab(run, need)) {
            return esp_fail_nomem(err);
        }
    }
    if (!reserve_sort(run, &run->list[list])) {
        return esp_fail_nomem(err);
    }
    *ref = (uint32_t)((run->slab_count - 1) << REF_PLACE_BITS | run->slab_used / BLOCK_ALIGN);
    uint32_t head[3] = {(uint32_t)key.len, (uint32_t)record.len, item_ref ? *item_ref : *ref};
    char *at = run->slab[run->slab_count - 1] + run->slab_used;
    memcpy(at, head, BLOCK_HEAD_BYTES);
    memcpy(at + BLOCK_HEAD_BYTES, key.ptr, key.len);
    if (record.len) {
        memcpy(at + BLOCK_HEAD_BYTES + key.len, record.ptr, record.len);
    }
    run->slab_used += need;
    struct bulk_list *to = &run->list[list];
    to->sort[to->count++] = (struct bulk_sort){head_at(key.ptr, key.len, DEPTH_FIRST), *ref};
    return ESP_OK;
}

enum esp_status bulk_run_put(struct bulk_run *run, struct esp_str key, struct esp_str record,
                             uint32_t *ref, struct esp_error *err) {
    enum esp_status status = put_block(run, 0, key, record, NULL, ref, err);
    run->puts += status == ESP_OK;
    return status;
}

enum esp_status bulk_run_put_entry(struct bulk_run *run, unsigned list, struct esp_str key,
                                   struct esp_str record, uint32_t item_ref,
                                   struct esp_error *err) {
    uint32_t ref;
    return put_block(run, list, key, record, &item_ref, &ref, err);
}

void bulk_run_drop_last(struct bulk_run *run, uint32_t ref) {
    for (unsigned i = 0; i < run->list_count; i++) {
        struct bulk_list *list = &run->list[i];
        if (list->count && block_at(run, list->sort[list->count - 1].ref).item_ref == ref) {
            list->count--;
        }
    }
    run->puts--;
}

/* --- sorting -------------------------------------------------------------------- */

enum {
    RADIX_COUNT_MIN = 512, /* below, comparing is faster */
    RADIX_BITS = 11,
    RADIX_PASSES = 6,
    RADIX_BUCKETS = 1 << RADIX_BITS,
    INSERTION_COUNT_MAX = 24,
    COMPARE_COUNT_MAX = 3,
    /* Sorted order is no order of memory.  A merge fetches whole records: further ahead, they are
     * gone again before their turn. */
    SORT_AHEAD = 32,
    MERGE_AHEAD = 8
};

/* Entries that agree on all bytes in front of `depth`. */
struct sort_range {
    size_t begin, count, depth;
};

struct sorter {
    struct bulk_run *run;
    struct bulk_sort *scratch;
    struct sort_range *stack;
    size_t stack_count, stack_cap;
};

/* Keys that agree on the bytes in front of `depth`; equal ones in the order they were put. */
static int compare_from(const struct bulk_run *run, const struct bulk_sort *a,
                        const struct bulk_sort *b, size_t depth) {
    struct block x = block_at(run, a->ref), y = block_at(run, b->ref);
    size_t skip = depth < x.key_len ? depth : x.key_len;
    skip = skip < y.key_len ? skip : y.key_len;
    int order = esp_str_cmp((struct esp_str){x.bytes + skip, x.key_len - skip},
                            (struct esp_str){y.bytes + skip, y.key_len - skip});
    return order ? order : (a->ref > b->ref) - (a->ref < b->ref);
}

static int compare_wholly(const void *a, const void *b, void *run) {
    return compare_from(run, a, b, 0);
}

/* A few that agree in front of `depth`, with their heads from there on. */
static void insertion_sort(struct bulk_run *run, struct bulk_sort *sort, size_t count,
                           size_t depth) {
    for (size_t i = 1; i < count; i++) {
        struct bulk_sort moving = sort[i];
        size_t k = i;
        for (; k > 0; k--) {
            const struct bulk_sort *before = &sort[k - 1];
            if (before->head < moving.head ||
                (before->head == moving.head && compare_from(run, before, &moving, depth) < 0)) {
                break;
            }
            sort[k] = *before;
        }
        sort[k] = moving;
    }
}

static int compare_heads(const void *a, const void *b) {
    const struct bulk_sort *x = a, *y = b;
    return (x->head > y->head) - (x->head < y->head);
}

/* By `head`, stable, skipping digits in which all agree. */
static void radix_sort(struct bulk_sort *sort, size_t count, struct bulk_sort *scratch) {
    uint32_t buckets[RADIX_PASSES][RADIX_BUCKETS];
    struct bulk_sort *from = sort, *to = scratch;
    memset(buckets, 0, sizeof buckets);
    for (size_t i = 0; i < count; i++) {
        for (int pass = 0; pass < RADIX_PASSES; pass++) {
            buckets[pass][sort[i].head >> (pass * RADIX_BITS) & (RADIX_BUCKETS - 1)]++;
        }
    }
    for (int pass = 0; pass < RADIX_PASSES; pass++) {
        uint32_t *bucket = buckets[pass], sum = 0;
        if (bucket[from[0].head >> (pass * RADIX_BITS) & (RADIX_BUCKETS - 1)] == count) {
            continue;
        }
        for (int i = 0; i < RADIX_BUCKETS; i++) {
            uint32_t here = bucket[i];
            bucket[i] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++) {
            to[bucket[from[i].head >> (pass * RADIX_BITS) & (RADIX_BUCKETS - 1)]++] = from[i];
        }
        struct bulk_sort *swap = from;
        from = to;
        to = swap;
    }
    if (from != sort) {
        memcpy(sort, from, count * sizeof *sort);
    }
}

static bool push(struct sorter *s, size_t begin, size_t count, size_t depth) {
    if (s->stack_count == s->stack_cap) {
        size_t cap = s->stack_cap ? 2 * s->stack_cap : 256;
        struct sort_range *stack =
            esp_resize(s->run->alloc, s->stack, s->stack_cap * sizeof *stack, cap * sizeof *stack);
        if (!stack) {
            return false;
        }
        s->stack = stack;
        s->stack_cap = cap;
    }
    s->stack[s->stack_count++] = (struct sort_range){begin, count, depth};
    return true;
}

/* Load 8 bytes of keys that agree in front of `*depth`, after skipping what else they all have
 * in common; false when all of them have ended. */
static bool deepen(const struct bulk_run *run, struct bulk_sort *sort, size_t count,
                   size_t *depth) {
    struct block first = block_at(run, sort[0].ref);
    size_t common = first.key_len;
    bool more = false;
    for (size_t i = 1; i < count; i++) {
        if (i + SORT_AHEAD < count) {
            __builtin_prefetch(address_of(run, sort[i + SORT_AHEAD].ref) + *depth);
        }
        struct block block = block_at(run, sort[i].ref);
        size_t most = block.key_len < common ? block.key_len : common, at = *depth;
        while (at < most && block.bytes[at] == first.bytes[at]) {
            at++;
        }
        common = at < common ? at : common;
        if (common <= *depth) {
            break;
        }
    }
    *depth = common > *depth ? common : *depth;
    for (size_t i = 0; i < count; i++) {
        if (i + SORT_AHEAD < count) {
            __builtin_prefetch(address_of(run, sort[i + SORT_AHEAD].ref) + *depth);
        }
        struct block block = block_at(run, sort[i].ref);
        sort[i].head = head_at(block.bytes, block.key_len, *depth);
        more |= block.key_len > *depth;
    }
    return more;
}

/* A few that agree in their heads at `depth` too: loading each one's next bytes once is cheaper
 * than going to both of every pair. */
static void sort_few(struct bulk_run *run, struct bulk_sort *sort, size_t count, size_t depth) {
    if (count > COMPARE_COUNT_MAX) {
        depth += sizeof sort->head;
        (void)deepen(run, sort, count, &depth);
    }
    insertion_sort(run, sort, count, depth);
}

/* Sort a range by its heads; what agrees in them is sorted at once when it is little, else
 * pushed. */
static bool sort_range(struct sorter *s, struct bulk_sort *all, struct sort_range range) {
    struct bulk_sort *sort = all + range.begin;
    if (range.depth > DEPTH_FIRST && !deepen(s->run, sort, range.count, &range.depth)) {
        /* zeros at their ends at most: the shorter one is first, then the earlier put */
        qsort_r(sort, range.count, sizeof *sort, compare_wholly, s->run);
        return true;
    }
    if (range.count <= INSERTION_COUNT_MAX) {
        insertion_sort(s->run, sort, range.count, range.depth);
        return true;
    }
    if (range.count < RADIX_COUNT_MIN) {
        qsort(sort, range.count, sizeof *sort, compare_heads);
    } else {
        radix_sort(sort, range.count, s->scratch);
    }
    for (size_t i = 0, k; i < range.count; i = k) {
        for (k = i + 1; k < range.count && sort[k].head == sort[i].head; k++) {
        }
        if (k - i > INSERTION_COUNT_MAX) {
            if (!push(s, range.begin + i, k - i, range.depth + sizeof sort->head)) {
                return false;
            }
        } else if (k - i > 1) {
            sort_few(s->run, sort + i, k - i, range.depth);
        }
    }
    return true;
}

/* A sort leaves heads at the depths it came to. */
static void reset_heads(struct bulk_run *run) {
    for (unsigned i = 0; i < run->list_count; i++) {
        struct bulk_list *list = &run->list[i];
        for (size_t k = 0; k < list->count; k++) {
            struct block block = block_at(run, list->sort[k].ref);
            list->sort[k].head = head_at(block.bytes, block.key_len, DEPTH_FIRST);
        }
    }
}

enum esp_status bulk_run_sort(struct bulk_run *run, struct esp_error *err) {
    struct sorter s = {.run = run};
    size_t most = 0;
    bool done = true;
    if (run->heads_moved) {
        reset_heads(run);
    }
    run->heads_moved = true;
    for (unsigned i = 0; i < run->list_count; i++) {
        most = run->list[i].count > most ? run->list[i].count : most;
    }
    size_t scratch_bytes = most * sizeof *s.scratch;
    s.scratch = most >= RADIX_COUNT_MIN ? esp_big_alloc(run->alloc, scratch_bytes) : NULL;
    if (most >= RADIX_COUNT_MIN && !s.scratch) {
        return esp_fail_nomem(err);
    }
    for (unsigned i = 0; i < run->list_count && done; i++) {
        done = run->list[i].count < 2 || push(&s, 0, run->list[i].count, DEPTH_FIRST);
        while (done && s.stack_count) {
            done = sort_range(&s, run->list[i].sort, s.stack[--s.stack_count]);
        }
    }
    if (s.scratch) {
        esp_big_free(run->alloc, s.scratch, scratch_bytes);
    }
    esp_release(run->alloc, s.stack, s.stack_cap * sizeof *s.stack);
    return done ? ESP_OK : esp_fail_nomem(err);
}

/* --- spilling ------------------------------------------------------------------- */

static struct bulk_pair pair_at(const struct bulk_run *run, uint32_t ref) {
    struct block block = block_at(run, ref), item = block;
    if (block.record_len == 0) {
        item = block_at(run, block.item_ref);
    }
    return (struct bulk_pair){{block.bytes, block.key_len},
                              {item.bytes + item.key_len, item.record_len},
                              run->number << 32 | block.item_ref,
                              true};
}

static enum esp_status fail_errno(const char *doing, struct esp_error *err) {
    int code = errno;
    if (err && err->status == ESP_OK) {
        err->os_errno = code;
    }
    return esp_fail(err, ESP_ERR_IO, "cannot %s the temporary file of a load: %s", doing,
                    strerror(code));
}

/* A file without a name: gone when it is closed, or the process ends. */
static int open_unnamed(const char *folder) {
    char path[1100];
    const char *base = getenv("TMPDIR");
    folder = folder ? folder : base && *base ? base : "/tmp";
    snprintf(path, sizeof path, "%s/spill-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

static bool write_all(int fd, const char *bytes, size_t len) {
    while (len) {
        ssize_t done = write(fd, bytes, len);
        if (done < 0 && errno != EINTR) {
            return false;
        }
        bytes += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

static enum esp_status spill_list(struct bulk_run *run, struct bulk_list *list, struct esp_buf *out,
                                  uint64_t *offset, struct esp_error *err) {
    list->file_begin = *offset;
    for (size_t i = 0; i < list->count; i++) {
        struct bulk_pair pair = pair_at(run, list->sort[i].ref);
        uint32_t head[2] = {(uint32_t)pair.key.len, (uint32_t)pair.record.len};
        esp_buf_put(out, head, sizeof head);
        esp_buf_put(out, &pair.sequence, sizeof pair.sequence);
        esp_buf_put_str(out, pair.key);
        esp_buf_put_str(out, pair.record);
        *offset += FILE_HEAD_BYTES + pair.key.len + pair.record.len;
        if (out->failed) {
            return esp_fail_nomem(err);
        }
        if (out->len >= FILE_BUFFER_BYTES || i + 1 == list->count) {
            if (!write_all(run->fd, out->ptr, out->len)) {
                return fail_errno("write", err);
            }
            esp_buf_reset(out);
        }
    }
    list->file_end = *offset;
    return ESP_OK;
}

/* The disk is full, or files may not be that big: what is in memory still counts. */
static void unspill(struct bulk_run *run) {
    close(run->fd);
    run->fd = -1;
    for (unsigned i = 0; i < run->list_count; i++) {
        run->list[i].file_begin = run->list[i].file_end = 0;
    }
}

enum esp_status bulk_run_spill(struct bulk_run *run, const char *folder, struct esp_error *err) {
    struct esp_buf out;
    uint64_t offset = 0;
    run->fd = open_unnamed(folder);
    if (run->fd < 0) {
        return fail_errno("make", err);
    }
    esp_buf_init(&out, run->alloc, 4 * (size_t)SLAB_BYTES_MAX);
    enum esp_status status = ESP_OK;
    for (unsigned i = 0; i < run->list_count && status == ESP_OK; i++) {
        status = spill_list(run, &run->list[i], &out, &offset, err);
    }
    esp_buf_fini(&out);
    if (status == ESP_OK) {
        free_memory(run);
    } else {
        unspill(run);
    }
    return status;
}

/* --- merging -------------------------------------------------------------------- */

/* One run's list, being read. */
struct source {
    const struct bulk_run *run;
    const struct bulk_list *list;
    size_t at;          /* in memory: the next entry */
    uint64_t offset;    /* in a file: the next byte to be read */
    uint64_t dropped;   /* in a file: what is in front of it has been given back */
    struct esp_buf buf; /* read, not yet used from `used` on */
    size_t used;
    struct bulk_pair pair;
};

struct bulk_merge {
    const struct esp_alloc *alloc;
    size_t count;
    struct source *source;
    size_t *heap, heap_count; /* positions of sources, the smallest pair first */
    bool begun;
};

/* What has been read is not needed again: its pages and its place on the disk serve the table
 * that is being written.  Where that cannot be done, it goes with the file. */
static void drop_read(struct source *s) {
    if (s->offset - s->dropped >= FILE_DROP_BYTES) {
        (void)fallocate(s->run->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->dropped,
                        (off_t)(s->offset - s->dropped));
        s->dropped = s->offset;
    }
}

/* At least `need` bytes from `used` on. */
static enum esp_status fill(struct source *s, size_t need, struct esp_error *err) {
    if (s->buf.len - s->used >= need) {
        return ESP_OK;
    }
    if (s->used) {
        memmove(s->buf.ptr, s->buf.ptr + s->used, s->buf.len - s->used);
        s->buf.len -= s->used;
        s->used = 0;
    }
    size_t want = need > FILE_BUFFER_BYTES ? need : FILE_BUFFER_BYTES;
    if (!esp_buf_reserve(&s->buf, want - s->buf.len)) {
        return esp_fail_nomem(err);
    }
    while (s->buf.len < want && s->offset < s->list->file_end) {
        uint64_t left = s->list->file_end - s->offset;
        size_t room = want - s->buf.len;
        ssize_t got =
            pread(s->run->fd, s->buf.ptr + s->buf.len, left < room ? left : room, (off_t)s->offset);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            errno = got < 0 ? errno : EIO;
            return fail_errno("read", err);
        }
        s->buf.len += got > 0 ? (size_t)got : 0;
        s->offset += got > 0 ? (uint64_t)got : 0;
    }
    drop_read(s);
    return ESP_OK;
}

static enum esp_status advance_file(struct source *s, struct esp_error *err) {
    uint32_t head[2];
    if (s->offset == s->list->file_end && s->used == s->buf.len) {
        return ESP_STOP;
    }
    enum esp_status status = fill(s, FILE_HEAD_BYTES, err);
    if (status != ESP_OK) {
        return status;
    }
    memcpy(head, s->buf.ptr + s->used, sizeof head);
    status = fill(s, FILE_HEAD_BYTES + (size_t)head[0] + head[1], err);
    if (status != ESP_OK) {
        return status;
    }
    const char *at = s->buf.ptr + s->used;
    memcpy(&s->pair.sequence, at + sizeof head, sizeof s->pair.sequence);
    at += FILE_HEAD_BYTES;
    s->pair.key = (struct esp_str){at, head[0]};
    s->pair.record = (struct esp_str){at + head[0], head[1]};
    s->used += FILE_HEAD_BYTES + (size_t)head[0] + head[1];
    return ESP_OK;
}

/* What comes into use later: first where the blocks are, half way on what they have. */
static void prefetch(const struct source *s) {
    enum { LINE_BYTES = 64 };
    if (s->at + MERGE_AHEAD < s->list->count) {
        __builtin_prefetch(address_of(s->run, s->list->sort[s->at + MERGE_AHEAD].ref));
    }
    if (s->at + MERGE_AHEAD / 2 < s->list->count) {
        uint32_t ref = s->list->sort[s->at + MERGE_AHEAD / 2].ref;
        struct block block = block_at(s->run, ref);
        const char *at = block.bytes;
        size_t bytes = block.key_len + block.record_len;
        if (block.record_len == 0) { /* an entry: the record is the item's */
            at = address_of(s->run, block.item_ref);
            bytes = 4 * LINE_BYTES; /* of it, its length is not known yet */
        }
        for (size_t i = 0; i < bytes && i < 8 * LINE_BYTES; i += LINE_BYTES) {
            __builtin_prefetch(at + i);
        }
    }
}

static enum esp_status advance(struct source *s, struct esp_error *err) {
    if (s->run->fd >= 0) {
        return advance_file(s, err);
    }
    if (s->at == s->list->count) {
        return ESP_STOP;
    }
    prefetch(s);
    s->pair = pair_at(s->run, s->list->sort[s->at++].ref);
    return ESP_OK;
}

static bool is_before(const struct bulk_merge *m, size_t a, size_t b) {
    const struct bulk_pair *x = &m->source[a].pair, *y = &m->source[b].pair;
    int order = esp_str_cmp(x->key, y->key);
    return order ? order < 0 : x->sequence < y->sequence;
}

static void sift_down(struct bulk_merge *m, size_t at) {
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < m->heap_count && is_before(m, m->heap[child + 1], m->heap[child])) {
            child++;
        }
        if (child >= m->heap_count || !is_before(m, m->heap[child], m->heap[at])) {
            return;
        }
        size_t swap = m->heap[at];
        m->heap[at] = m->heap[child];
        m->heap[child] = swap;
        at = child;
    }
}

enum esp_status bulk_merge_new(struct bulk_run *runs, unsigned list, const struct esp_alloc *alloc,
                               struct bulk_merge **out, struct esp_error *err) {
    struct bulk_merge *m = esp_calloc(alloc, 1, sizeof *m);
    enum esp_status status = ESP_OK;
    *out = m;
    if (!m) {
        return esp_fail_nomem(err);
    }
    m->alloc = alloc;
    for (struct bulk_run *run = runs; run; run = run->next) {
        m->count++;
    }
    m->source = esp_calloc(alloc, m->count, sizeof *m->source);
    m->heap = esp_calloc(alloc, m->count, sizeof *m->heap);
    if (!m->source || !m->heap) {
        return esp_fail_nomem(err);
    }
    size_t i = 0;
    for (struct bulk_run *run = runs; run && status == ESP_OK; run = run->next, i++) {
        m->source[i].run = run;
        m->source[i].list = &run->list[list];
        m->source[i].offset = run->list[list].file_begin;
        m->source[i].dropped = run->list[list].file_begin;
        esp_buf_init(&m->source[i].buf, alloc, 4 * (size_t)SLAB_BYTES_MAX);
        status = advance(&m->source[i], err);
        if (status == ESP_OK) {
            m->heap[m->heap_count++] = i;
        }
        status = status == ESP_STOP ? ESP_OK : status;
    }
    for (size_t k = m->heap_count; k-- > 0;) {
        sift_down(m, k);
    }
    return status;
}

void bulk_merge_free(struct bulk_merge *m) {
    if (!m) {
        return;
    }
    for (size_t i = 0; m->source && i < m->count; i++) {
        if (m->source[i].run) {
            esp_buf_fini(&m->source[i].buf);
        }
    }
    esp_release(m->alloc, m->source, m->count * sizeof *m->source);
    esp_release(m->alloc, m->heap, m->count * sizeof *m->heap);
    esp_release(m->alloc, m, sizeof *m);
}

enum esp_status bulk_merge_next(struct bulk_merge *m, struct bulk_pair *out,
                                struct esp_error *err) {
    if (m->begun && m->heap_count) { /* the pair given out last is done with only now */
        enum esp_status status = advance(&m->source[m->heap[0]], err);
        if (status == ESP_STOP) {
            m->heap[0] = m->heap[--m->heap_count];
        } else if (status != ESP_OK) {
            return status;
        }
        sift_down(m, 0);
    }
    m->begun = true;
    if (m->heap_count == 0) {
        return ESP_STOP;
    }
    *out = m->source[m->heap[0]].pair;
    return ESP_OK;
}
