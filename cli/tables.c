/* espalier tables: the tables of a store, or one of them in full. */
#include "cli/shared.h"

#include "bench/text.h"

enum { OUTPUT_BYTES_MAX = 16 << 20, NAMES_BYTES_MAX = 16 << 20, DESCRIPTION_BYTES_MAX = 1 << 20 };

struct listing {
    struct esp_cli *cli;
    struct esp_store *store;
    struct esp_arena names, scratch;
    struct esp_buf list; /* const char * */
    struct esp_buf out;
    bool json;
    size_t count;
};

static enum esp_status keep_name(void *ctx, struct esp_str name) {
    struct listing *l = ctx;
    struct esp_str copy = esp_arena_dup(&l->names, name);
    esp_buf_put(&l->list, &copy.ptr, sizeof copy.ptr);
    return copy.ptr && !l->list.failed ? ESP_OK : ESP_ERR_NOMEM;
}

static const char *billing_text(enum esp_billing billing) {
    switch (billing) {
    case ESP_BILLING_ON_DEMAND:
        return "on-demand";
    case ESP_BILLING_PROVISIONED:
        return "provisioned";
    case ESP_BILLING_UNKNOWN:
        break;
    }
    return "unknown";
}

static const char *type_text(enum esp_type type) {
    switch (type) {
    case ESP_TYPE_N:
        return "N";
    case ESP_TYPE_B:
        return "B";
    default:
        return "S";
    }
}

/* --- JSON ------------------------------------------------------------------------------ */

static void put_key_json(struct esp_buf *out, const struct esp_schema *schema, int pk, int sk) {
    const int position[] = {pk, sk};
    ESP_BUF_LIT(out, "\"key\":[");
    for (size_t i = 0; i < 2 && position[i] >= 0; i++) {
        const struct esp_attr *attr = &schema->attr[position[i]];
        esp_buf_printf(out, "%s{\"name\":", i ? "," : "");
        esp_json_put_string(out, attr->name);
        esp_buf_printf(out, ",\"type\":\"%s\"}", type_text(attr->type));
    }
    ESP_BUF_LIT(out, "]");
}

static void put_json(struct listing *l, const struct esp_table_info *info) {
    struct esp_buf *out = &l->out;
    esp_buf_printf(out, "%s{\"name\":", l->count++ ? "," : "");
    esp_json_put_string(out, esp_str_from(info->name));
    ESP_BUF_LIT(out, ",\"status\":");
    esp_json_put_string(out, esp_str_from(info->status));
    esp_buf_printf(out, ",\"items\":%llu,\"item_bytes\":%llu,\"billing\":\"%s\",",
                   (unsigned long long)info->item_count, (unsigned long long)info->item_bytes,
                   billing_text(info->billing));
    put_key_json(out, &info->schema, info->schema.pk, info->schema.sk);
    ESP_BUF_LIT(out, ",\"indexes\":[");
    for (size_t i = 0; i < info->schema.index_count; i++) {
        const struct esp_index *index = &info->schema.index[i];
        esp_buf_printf(out, "%s{\"name\":", i ? "," : "");
        esp_json_put_string(out, index->name);
        esp_buf_printf(out, ",\"bytes\":%llu,", (unsigned long long)info->index_bytes[i]);
        put_key_json(out, &info->schema, index->pk, index->sk);
        ESP_BUF_LIT(out, "}");
    }
    ESP_BUF_LIT(out, "]}");
}

/* --- text ------------------------------------------------------------------------------- */

static void put_key(struct esp_buf *out, const struct esp_schema *schema, int pk, int sk) {
    const int position[] = {pk, sk};
    for (size_t i = 0; i < 2 && position[i] >= 0; i++) {
        const struct esp_attr *attr = &schema->attr[position[i]];
        esp_buf_printf(out, "%s%.*s (%s)", i ? ", " : "", ESP_FMT(attr->name),
                       type_text(attr->type));
    }
}

static void put_text(struct listing *l, const struct esp_table_info *info) {
    struct esp_buf *out = &l->out;
    char count[ESP_TEXT_MAX], bytes[ESP_TEXT_MAX];
    esp_buf_printf(out, "%s: %s, %s items, %s, %s\n  key ", info->name, info->status,
                   esp_text_count(count, info->item_count),
                   esp_text_bytes(bytes, (double)info->item_bytes), billing_text(info->billing));
    put_key(out, &info->schema, info->schema.pk, info->schema.sk);
    esp_buf_put_char(out, '\n');
    for (size_t i = 0; i < info->schema.index_count; i++) {
        const struct esp_index *index = &info->schema.index[i];
        esp_buf_printf(out, "  index %.*s: ", ESP_FMT(index->name));
        put_key(out, &info->schema, index->pk, index->sk);
        esp_buf_printf(out, ", %s\n", esp_text_bytes(bytes, (double)info->index_bytes[i]));
    }
}

static enum esp_status describe(struct listing *l, const char *name) {
    struct esp_table_info info;
    esp_arena_reset(&l->scratch);
    enum esp_status status =
        l->store->ops->describe_table(l->store, name, &l->scratch, &info, &l->cli->err);
    if (status == ESP_OK && l->json) {
        put_json(l, &info);
    } else if (status == ESP_OK) {
        put_text(l, &info);
    }
    return status;
}

static enum esp_status describe_all(struct listing *l) {
    enum esp_status status = l->store->ops->list_tables(l->store, keep_name, l, &l->cli->err);
    const char *const *names = (const char *const *)(const void *)l->list.ptr;
    for (size_t i = 0; status == ESP_OK && i < l->list.len / sizeof *names; i++) {
        status = describe(l, names[i]);
    }
    return status;
}

static enum esp_status show(struct listing *l, const char *table) {
    if (l->json) {
        ESP_BUF_LIT(&l->out, "{\"schema\":1,\"tables\":[");
    }
    enum esp_status status = table ? describe(l, table) : describe_all(l);
    if (l->json) {
        ESP_BUF_LIT(&l->out, "]}\n");
    }
    return status == ESP_OK ? esp_cli_print(l->cli, &l->out) : status;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct esp_cli_options *o = options;
    struct listing l = {.cli = cli, .json = o->json};
    (void)count;
    cli->config.must_exist = true;
    enum esp_status status = esp_cli_store_open(cli, o, operands[0], &l.store);
    if (status != ESP_OK) {
        return status;
    }
    esp_arena_init(&l.names, cli->alloc, NAMES_BYTES_MAX);
    esp_arena_init(&l.scratch, cli->alloc, DESCRIPTION_BYTES_MAX);
    esp_buf_init(&l.list, cli->alloc, NAMES_BYTES_MAX);
    esp_buf_init(&l.out, cli->alloc, OUTPUT_BYTES_MAX);
    status = show(&l, o->table);
    esp_buf_fini(&l.out);
    esp_buf_fini(&l.list);
    esp_arena_fini(&l.scratch);
    esp_arena_fini(&l.names);
    esp_store_close(l.store);
    return status;
}

static const struct esp_option *const option_tables[] = {esp_cli_table_options, esp_cli_json_option,
                                                         esp_cli_store_options, NULL};

const struct esp_command esp_command_tables = {
    .name = "tables",
    .summary = "list the tables of a store with keys, indexes and sizes",
    .operands = "STORE",
    .required = "",
    .example = "  espalier tables local:db\n",
    .options = option_tables,
    .options_size = sizeof(struct esp_cli_options),
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
