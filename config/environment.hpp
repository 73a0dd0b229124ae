// Puts variables of the environment into settings: `${NAME}` in any string value stands for the variable's value.
//
// Only `${` is special, and `$${` stands for `${` itself. So settings that were written without variables keep their
// meaning. The value that comes in is taken as it is: it is no TOML, and no `${` in it counts.
#pragma once

#include <toml++/toml.h>

#include "config/table_reader.hpp"

namespace weir::config {

/// Replaces the variables in every string of the table and of all that is in it; keys stay as they are. A variable that
/// is not set and a `${` that names none are errors. They name the key and the variable, and never show the value,
/// which may be a secret. What a value was put together from is noted in the report. It reads the process's
/// environment.
void put_environment(toml::table& root, Report& report);

}  // namespace weir::config
