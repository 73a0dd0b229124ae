// The options of `weir-lab sim` that describe its engine, as CLI11 options of a command.
//
// A preset is taken first, wherever it stands in the command line; every other option then overrides its value.
#pragma once

#include "lab/engine/engine_model.hpp"

namespace CLI {
class App;
}

namespace weir::lab::engine {

/// Adds them; `settings` holds what was asked for when the command line has been read. It must outlive `command`.
void add_engine_options(CLI::App& command, EngineSettings& settings);

}  // namespace weir::lab::engine
