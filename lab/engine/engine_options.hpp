// The options of `weir-lab sim` that describe its engine, as CLI11 options of a command.
//
// The preset is applied first, wherever it stands on the command line. Every other option then overrides its value.
#pragma once

#include "lab/engine/engine_model.hpp"

namespace CLI {
class App;
}

namespace weir::lab::engine {

/// Adds the options. When the command line has been read, `settings` holds what was asked for. It must outlive
/// `command`.
void add_engine_options(CLI::App& command, EngineSettings& settings);

}  // namespace weir::lab::engine
