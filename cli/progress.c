#include "cli/progress.h"

#include "bench/text.h"

#include <stdio.h>
#include <unistd.h>

static const uint64_t pause_ns = 1000000000 / 6; /* between two writes of the line */
static const double ns_per_s = 1e9;

enum esp_status esp_cli_progress_init(struct esp_cli *cli, const struct esp_cli_options *options,
                                      struct esp_cli_progress *progress) {
    *progress = (struct esp_cli_progress){.mode = ESP_PROGRESS_OFF, .clock = cli->clock};
    if (!options->progress) {
        progress->mode = isatty(STDERR_FILENO) ? ESP_PROGRESS_LINE : ESP_PROGRESS_OFF;
    } else if (strcmp(options->progress, "json") == 0) {
        progress->mode = ESP_PROGRESS_JSON;
    } else if (options->progress[0] == 0) {
        progress->mode = ESP_PROGRESS_LINE;
    } else {
        return esp_fail(&cli->err, ESP_ERR_USAGE,
                        "--progress takes nothing or json (--progress=json), not '%s'",
                        options->progress);
    }
    return ESP_OK;
}

/* Is it time for another line? */
static bool is_due(struct esp_cli_progress *p) {
    if (p->mode == ESP_PROGRESS_OFF) {
        return false;
    }
    uint64_t now = esp_now_ns(p->clock);
    if (p->shown_ns && now - p->shown_ns < pause_ns) {
        return false;
    }
    p->shown_ns = now;
    return true;
}

static void write_over(struct esp_cli_progress *p, const char *text) {
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    p->line_open = true;
}

static void show_load(struct esp_cli_progress *p, const struct esp_load_progress *s) {
    char done[ESP_TEXT_MAX], total[ESP_TEXT_MAX], rate[ESP_TEXT_MAX], units[ESP_TEXT_MAX];
    char eta[ESP_TEXT_MAX], line[6 * ESP_TEXT_MAX];
    double elapsed_s = (double)s->elapsed_ns / ns_per_s;
    bool at_the_end = s->items_done == 0; /* the store writes when it has them all */
    uint64_t items = at_the_end ? s->items_made : s->items_done;
    double share = s->items_total ? (double)items / (double)s->items_total : 0;
    double rate_s = elapsed_s > 0 ? (double)items / elapsed_s : 0;
    double left_s = rate_s > 0 ? (double)(s->items_total - items) / rate_s : 0;
    snprintf(line, sizeof line, "%3.0f %%  %s of %s items %s  %s items/s  %s write units  %s%s",
             share * 100, esp_text_count(done, items), esp_text_count(total, s->items_total),
             at_the_end ? "sorted" : "written", esp_text_count(rate, (uint64_t)rate_s),
             esp_text_count(units, (uint64_t)esp_units_total(&s->usage.write)),
             items < s->items_total ? esp_text_seconds(eta, left_s) : "writing",
             items < s->items_total ? " left" : "");
    write_over(p, line);
}

void esp_cli_progress_load(void *ctx, const struct esp_load_progress *s) {
    struct esp_cli_progress *p = ctx;
    if (!is_due(p)) {
        return;
    }
    if (p->mode == ESP_PROGRESS_LINE) {
        show_load(p, s);
        return;
    }
    fprintf(stderr,
            "{\"schema\":1,\"nodes_total\":%llu,\"nodes_done\":%llu,\"items_total\":%llu,"
            "\"items_made\":%llu,\"items_done\":%llu,\"write_units\":%.1f,\"requests\":%llu,"
            "\"throttled\":%llu,"
            "\"elapsed_s\":%.3f}\n",
            (unsigned long long)s->nodes_total, (unsigned long long)s->nodes_done,
            (unsigned long long)s->items_total, (unsigned long long)s->items_made,
            (unsigned long long)s->items_done, esp_units_total(&s->usage.write),
            (unsigned long long)s->usage.requests, (unsigned long long)s->usage.throttled,
            (double)s->elapsed_ns / ns_per_s);
}

void esp_cli_progress_step(void *ctx, const char *part, const char *what) {
    struct esp_cli_progress *p = ctx;
    if (!is_due(p)) {
        return;
    }
    if (p->mode == ESP_PROGRESS_LINE) {
        char line[256];
        snprintf(line, sizeof line, "%s: %s", part, what);
        write_over(p, line);
    } else { /* names of layouts and operations need no escapes */
        fprintf(stderr, "{\"schema\":1,\"layout\":\"%s\",\"step\":\"%s\"}\n", part, what);
    }
}

void esp_cli_progress_end(struct esp_cli_progress *progress) {
    if (progress->line_open) {
        fprintf(stderr, "\r\033[K");
        progress->line_open = false;
    }
}
