// Facts of the machine that a reader of a report needs: on what weir ran, and how busy all of it was.
#pragma once

#include "metrics/wire/json/writer.hpp"

namespace weir::proxy::control::incident {

/// Writes {"host","kernel","cpu","cpus","memory_bytes","memory_available_bytes","load":[1, 5, 15 minutes],"uptime_s"}.
/// An unknown fact is null. It reads two files of /proc.
void write_machine(metrics::wire::JsonWriter& json);

}  // namespace weir::proxy::control::incident
