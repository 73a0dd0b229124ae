// The report is written by the writer of all JSON.
#pragma once

#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::compare::report {

using wire::JsonWriter;

}  // namespace weir::metrics::compare::report
