/* espalier repair: mend what an edit that was cut has left half done. */
#include "loader/repair.h"

#include "cli/shared.h"

#include "core/spill.h"

enum { OUTPUT_BYTES_MAX = 64 << 20, FLUSH_BYTES = 64 << 10 };

struct repair_options {
    struct esp_cli_options shared;
    const char *journal;
    bool undo, dry_run, rebuild;
    uint64_t memory;
};

struct report {
    struct esp_cli *cli;
    const struct repair_options *options;
    struct esp_buf out;
    uint64_t notes;
};

static const char *const note_names[] = {
    [ESP_REPAIR_STRANGE] = "changed",   [ESP_REPAIR_FOUND] = "found",
    [ESP_REPAIR_CHOSEN] = "chosen",     [ESP_REPAIR_LEFT] = "left",
    [ESP_REPAIR_RESTORED] = "restored", [ESP_REPAIR_REMAINS] = "remains",
};

static enum esp_status put_note(void *ctx, enum esp_repair_note note,
                                const struct esp_finding *finding) {
    struct report *report = ctx;
    struct esp_buf *out = &report->out;
    report->notes++;
    bool json = report->options->shared.json;
    if (json) {
        esp_buf_printf(out, "%s{\"kind\":\"%s\",", report->notes > 1 ? "," : "", note_names[note]);
    } else {
        esp_buf_printf(out, "%s: ", note_names[note]);
    }
    esp_cli_put_finding(out, finding, json);
    if (json) {
        ESP_BUF_LIT(out, "}");
    }
    return out->len >= FLUSH_BYTES ? esp_cli_print(report->cli, out) : ESP_OK;
}

/* --- as text ------------------------------------------------------------------------------ */

static void put_count(struct esp_buf *out, uint64_t n, const char *what) {
    esp_buf_printf(out, "%llu %s%s", (unsigned long long)n, what, n == 1 ? "" : "s");
}

static void put_journal(struct report *report, const struct esp_repair *r) {
    struct esp_buf *out = &report->out;
    bool dry = r->dry_run;
    if (r->state == ESP_REPAIR_NO_JOURNAL) {
        return;
    }
    if (r->state == ESP_REPAIR_UNSENT || r->state == ESP_REPAIR_WAS_DONE) {
        esp_buf_printf(out, "journal: %s; %s\n",
                       r->state == ESP_REPAIR_UNSENT
                           ? "the edit was cut before it sent anything"
                           : "the edit was done, only its journal was left",
                       dry ? "it would be removed" : "it is removed");
        return;
    }
    esp_buf_printf(out, "journal of %.*s: of ", ESP_FMT(r->operation));
    put_count(out, r->entries, "item");
    esp_buf_printf(out, " %llu %s as %s it, %llu %swritten", (unsigned long long)r->already,
                   r->already == 1 ? "was" : "were", r->undo ? "before" : "after",
                   (unsigned long long)r->written, dry ? "would be " : "");
    if (r->strange) {
        esp_buf_printf(out, ", %llu changed since and left alone", (unsigned long long)r->strange);
    }
    if (r->withheld) {
        ESP_BUF_LIT(out, "; ");
        put_count(out, r->withheld, "delete");
        ESP_BUF_LIT(out, " held back");
    }
    esp_buf_printf(out, ": the edit %s\n",
                   r->state == ESP_REPAIR_UNMENDED  ? "is not mended, the journal stays"
                   : r->state == ESP_REPAIR_SETTLED ? "ends here, its journal is removed"
                   : dry && r->undo                 ? "would be undone"
                   : dry                            ? "would be finished"
                   : r->undo                        ? "is undone"
                                                    : "is finished");
}

static void put_rebuild(struct report *report, const struct esp_repair *r) {
    struct esp_buf *out = &report->out;
    const char *would = r->dry_run ? "would be " : "";
    if (r->rebuild.trees + r->sum.puts + r->sum.updates + r->sum.deletes == 0) {
        return;
    }
    if (r->rebuild.trees) { /* graph's nodes are mended one by one */
        put_count(out, r->rebuild.trees, "tree");
        ESP_BUF_LIT(out, " of ");
    }
    put_count(out, r->rebuild.nodes, "node");
    esp_buf_printf(out, " %sput together from the items: ", would);
    put_count(out, r->sum.puts, "item");
    esp_buf_printf(out, " put, %llu updated, %llu deleted", (unsigned long long)r->sum.updates,
                   (unsigned long long)r->sum.deletes);
    if (r->dry_run) {
        ESP_BUF_LIT(out, "; ");
        esp_cli_put_number(out, esp_units_total(&r->sum.usage.write));
        ESP_BUF_LIT(out, " write units");
    }
    ESP_BUF_LIT(out, "\n");
}

static void put_text(struct report *report, const struct esp_repair *r, const char *table,
                     const struct esp_usage *usage) {
    struct esp_buf *out = &report->out;
    bool nothing = r->state == ESP_REPAIR_NO_JOURNAL && r->rebuild.findings == 0;
    put_journal(report, r);
    put_rebuild(report, r);
    esp_buf_printf(out, "%s: ", table);
    if (nothing && r->rebuild.left_count == 0) {
        ESP_BUF_LIT(out, "nothing to repair\n");
    } else if (r->dry_run) {
        ESP_BUF_LIT(out, "nothing was written\n");
    } else if (esp_repair_is_whole(r)) {
        ESP_BUF_LIT(out, "whole\n");
    } else if (r->checked) {
        put_count(out, r->remaining, "finding");
        esp_buf_printf(out, " remain%s%s\n", r->remaining == 1 ? "s" : "",
                       r->state == ESP_REPAIR_UNMENDED
                           ? "; repair --rebuild gives the journal up and goes by the items"
                           : "");
    } else {
        ESP_BUF_LIT(out, "not whole\n");
    }
    esp_cli_put_cost(out, usage, true);
}

/* --- as JSON ------------------------------------------------------------------------------ */

static const char *const state_names[] = {
    [ESP_REPAIR_NO_JOURNAL] = "none",   [ESP_REPAIR_UNSENT] = "unsent",
    [ESP_REPAIR_WAS_DONE] = "done",     [ESP_REPAIR_FINISHED] = "finished",
    [ESP_REPAIR_UNDONE] = "undone",     [ESP_REPAIR_SETTLED] = "settled",
    [ESP_REPAIR_UNMENDED] = "unmended",
};

static void put_number(struct esp_buf *out, const char *name, uint64_t n) {
    esp_buf_printf(out, ",\"%s\":%llu", name, (unsigned long long)n);
}

static void put_json(struct report *report, const struct esp_repair *r,
                     const struct esp_usage *usage) {
    struct esp_buf *out = &report->out;
    esp_buf_printf(out, "],\"dry_run\":%s,\"journal\":{\"state\":\"%s\",\"operation\":",
                   r->dry_run ? "true" : "false", state_names[r->state]);
    if (r->operation.ptr) {
        esp_json_put_string(out, r->operation);
    } else {
        ESP_BUF_LIT(out, "null");
    }
    put_number(out, "entries", r->entries);
    put_number(out, "already", r->already);
    put_number(out, "written", r->written);
    put_number(out, "changed", r->strange);
    put_number(out, "withheld", r->withheld);
    esp_buf_printf(out, "},\"rebuild\":{\"run\":%s", r->rebuilt ? "true" : "false");
    put_number(out, "findings", r->rebuild.findings);
    put_number(out, "trees", r->rebuild.trees);
    put_number(out, "nodes", r->rebuild.nodes);
    put_number(out, "puts", r->sum.puts);
    put_number(out, "updates", r->sum.updates);
    put_number(out, "deletes", r->sum.deletes);
    put_number(out, "left", r->rebuild.left_count);
    put_number(out, "restored", r->rebuild.restored_count);
    ESP_BUF_LIT(out, ",\"write_units\":");
    esp_cli_put_number(out, esp_units_total(&r->sum.usage.write));
    ESP_BUF_LIT(out, "}");
    put_number(out, "remaining", r->remaining);
    esp_buf_printf(out, ",\"whole\":%s,", esp_repair_is_whole(r) ? "true" : "false");
    esp_cli_put_cost_json(out, usage, true);
    ESP_BUF_LIT(out, "}\n");
}

/* --- the command -------------------------------------------------------------------------- */

static enum esp_status repair_table(struct report *report, struct esp_cli_access *t) {
    const struct repair_options *o = report->options;
    struct esp_cli *cli = report->cli;
    struct esp_repair repair = {
        .undo = o->undo,
        .dry_run = o->dry_run,
        .rebuild_anyway = o->rebuild,
        .journal = o->journal,
        .set = &o->shared.set,
        .tell = put_note,
        .ctx = report,
    };
    if (o->shared.json) {
        ESP_BUF_LIT(&report->out, "{\"schema\":1,\"notes\":[");
    }
    enum esp_status status = esp_repair_run(&t->access, &repair);
    if (status != ESP_OK) {
        return esp_fail(&cli->err, status, "repair: %s", esp_status_text(status));
    }
    if (o->shared.json) {
        put_json(report, &repair, &t->session->usage);
    } else {
        put_text(report, &repair, t->table->name, &t->session->usage);
    }
    cli->findings =
        !esp_repair_is_whole(&repair) || repair.strange || repair.rebuild.restored_count;
    return esp_cli_print(cli, &report->out);
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct repair_options *o = options;
    struct report report = {.cli = cli, .options = o};
    struct esp_cli_access t;
    struct esp_spill spill;
    (void)count;
    esp_spill_init(&spill, cli->alloc, (size_t)o->memory);
    esp_buf_init(&report.out, cli->alloc, OUTPUT_BYTES_MAX);
    enum esp_status status = esp_cli_access_open(cli, &o->shared, operands[0], &t);
    if (status == ESP_OK) {
        t.session->memory = &spill.alloc;
        status = repair_table(&report, &t);
    }
    esp_cli_access_close(&t);
    esp_spill_fini(&spill);
    esp_buf_fini(&report.out);
    return status;
}

#define OWN(field, kind, flag, argument_text, help_text)                                           \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct repair_options, field),              \
        .argument = argument_text, .help = help_text                                               \
    }
static const struct esp_option own_options[] = {
    OWN(journal, ESP_OPT_STRING, "journal", "FILE",
        "the journal of the edit (the table's own in ~/.local/state/espalier)"),
    OWN(undo, ESP_OPT_FLAG, "undo", NULL, "take the edit of the journal back, not finish it"),
    OWN(rebuild, ESP_OPT_FLAG, "rebuild", NULL,
        "give up a journal that cannot be finished; go by what the items tell"),
    OWN(dry_run, ESP_OPT_FLAG, "dry-run", NULL, "say what would be done; write nothing"),
    {.name = "memory",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct repair_options, memory),
     .argument = "BYTES",
     .fallback = "256M",
     .help = "beyond this much, what is remembered of nodes goes to files in TMPDIR"},
    {.name = NULL}};
static const struct esp_option *const tables[] = {esp_cli_table_options, esp_cli_layout_options,
                                                  own_options,           esp_cli_json_option,
                                                  esp_cli_store_options, NULL};

const struct esp_command esp_command_repair = {
    .name = "repair",
    .summary = "mend a table after an edit that was cut",
    .operands = "STORE",
    .required = "--table NAME --layout LAYOUT",
    .details =
        "With the journal of an edit that was cut, the edit is finished, or with --undo taken\n"
        "back. What somebody else has changed since is named and left alone. When only that is\n"
        "left, the journal goes if check finds nothing; else --rebuild gives it up.\n"
        "\n"
        "Then, where check finds damage, the trees concerned are put together from what their\n"
        "items tell. No node is dropped; what the items do not tell is named and left alone.\n"
        "Undamaged trees are not touched. Exit code 4 when something remains.\n",
    .example = "  espalier repair dynamodb: --table world --layout path\n"
               "  espalier repair local:db --table world --layout nested-set --dry-run\n",
    .options = tables,
    .options_size = sizeof(struct repair_options),
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
