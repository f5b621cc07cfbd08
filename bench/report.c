#include "bench/report.h"

#define ESP_REPORTER(name, source) extern const struct esp_reporter esp_reporter_##name;
#include "bench/reports.def"
#undef ESP_REPORTER

const struct esp_reporter *const esp_reporters[] = {
#define ESP_REPORTER(name, source) &esp_reporter_##name,
#include "bench/reports.def"
#undef ESP_REPORTER
    NULL,
};

const struct esp_reporter *esp_reporter_find(const char *name_or_file) {
    const char *dot = strrchr(name_or_file, '.');
    const char *extension = dot ? dot + 1 : name_or_file;
    for (size_t i = 0; esp_reporters[i]; i++) {
        if (strcmp(esp_reporters[i]->name, name_or_file) == 0 ||
            (esp_reporters[i]->extension && strcmp(esp_reporters[i]->extension, extension) == 0)) {
            return esp_reporters[i];
        }
    }
    return NULL;
}
