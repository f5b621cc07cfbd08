#include "importers/importer.h"

static int sniff(struct esp_str head) {
    (void)head;
    return 0;
}

static enum esp_status run(struct esp_reader *in, const struct esp_source_options *options,
                           const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                           struct esp_error *err) {
    (void)in, (void)options, (void)alloc, (void)emit, (void)ctx;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "importers are not there yet");
}

const struct esp_importer esp_importer_json = {"json", "json", NULL, sniff, run};
