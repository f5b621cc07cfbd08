#include "stores/engine.h"
