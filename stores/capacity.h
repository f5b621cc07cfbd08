#ifndef ESP_STORES_CAPACITY_H
#define ESP_STORES_CAPACITY_H
/*
 * The meter: read and write units from bytes by DynamoDB's documented rules
 * (shared facts sheet 4.1 to 4.5 and 4.10, the `service` column), indexes included.
 * Stores call it with what each request touched; nothing else computes units.
 * What an endpoint itself reports is kept apart (esp_usage.billed_*).
 */
#include "stores/item.h"

/* Units of a table and of each of its indexes.  Multiples of 0.5. */
struct esp_units {
    double table;
    double index[ESP_INDEX_MAX];
};
static inline double esp_units_total(const struct esp_units *u) {
    double sum = u->table;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        sum += u->index[i];
    }
    return sum;
}
void esp_units_add(struct esp_units *sum, const struct esp_units *part);

/* What a piece of work cost. */
struct esp_usage {
    uint64_t requests;            /* HTTP requests or their equivalent, retries included */
    uint64_t round_trips;         /* requests in sequence; those that overlap count once */
    uint64_t retries;             /* requests repeated because of throttling or errors */
    uint64_t throttled;           /* answers (or items left unprocessed) that said: too fast */
    uint64_t items_read;          /* before filters: what is charged */
    uint64_t items_returned;      /* after filters; counted by stores where they call fn */
    uint64_t items_written;       /* puts + updates + deletes that succeeded */
    uint64_t items_added;         /* of them: there was no item; or as much as the client knows */
    uint64_t items_deleted;       /* there is none any more */
    uint64_t items_changed;       /* there is another one; what is left of them changed nothing */
    uint64_t bytes_read;          /* item and entry bytes, before filters */
    uint64_t bytes_written;       /* item bytes after the write, index entries not included */
    uint64_t index_bytes_written; /* entry bytes after the write, all indexes */
    struct esp_units read, write; /* by the documented rules */
    struct esp_units billed_read, billed_write; /* as the endpoint reported them */
    bool billed;          /* the endpoint reports capacity; false: billed_* mean nothing */
    bool write_estimated; /* a write's previous item was not known to the client */
    bool read_estimated;  /* a remote filter hid what was read: billed units were taken */
};
void esp_usage_add(struct esp_usage *sum, const struct esp_usage *part);

double esp_write_units(uint64_t bytes);             /* max(1, ceil(bytes / 1024)) */
double esp_read_units(uint64_t bytes, bool strong); /* max(1, ceil(bytes / 4096)), halved if not */

/* One put, update or delete: `old` and `new_item` may be NULL (none).  Adds units to
 * usage->write, and the counts of items and bytes written. */
void esp_meter_write(const struct esp_schema *schema, const struct esp_item *old,
                     const struct esp_item *new_item, bool transaction, struct esp_usage *usage);
/* A condition check in a transaction of an item (NULL: missing). */
void esp_meter_check(const struct esp_schema *schema, const struct esp_item *item,
                     struct esp_usage *usage);

enum esp_consistency { ESP_EVENTUAL, ESP_STRONG, ESP_TRANSACTION };
/* One key of GetItem, BatchGetItem or TransactGetItems; `size` 0 = the item is missing. */
void esp_meter_get(uint32_t size, enum esp_consistency consistency, struct esp_usage *usage);
/* One page of a Query or Scan: `index` -1 is the table; `bytes` the sum over the items
 * (or entries) evaluated, `items` their number. */
void esp_meter_page(int index, uint64_t bytes, uint64_t items, bool strong,
                    struct esp_usage *usage);
/* An item fetched from the table for an LSI query that wants what is not projected. */
void esp_meter_fetch(uint32_t size, bool strong, struct esp_usage *usage);

#endif
