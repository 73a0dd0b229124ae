// Reads an engine's own metrics page: the engine's kind, the size of its KV cache, and its load. No I/O.
//
// Names differ by engine and drift between releases, so each figure has a list of names (config::EngineNames), and the
// first that is on the page counts. The lines of one name are added up, because data parallel engines behind one port
// have a line each; a share is averaged. A value that no engine can have is unknown.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "config/engine_names.hpp"
#include "proxy/fleet/engine_figures.hpp"

namespace weir::proxy::fleet {

/// Counters of an engine's work by name: those of EngineNames::counters that are on a page.
using Counters = std::map<std::string, double, std::less<>>;

/// Returns whether a counter that both pages have has changed from one to the other; nothing if they have none in
/// common.
std::optional<bool> have_moved(const Counters& first, const Counters& second);
/// Takes the counters of a page into those that were known, which stay where the page lacks them. Returns true if one
/// of them has risen.
bool have_risen(Counters& known, const Counters& page);

struct EnginePage {
  bool is_page = false;  ///< Has a sample.
  Engine engine = Engine::unknown;
  std::optional<std::uint64_t> kv_tokens;
  std::optional<bool> prefix_caching;  ///< vLLM says whether it is on.
  std::optional<double> started;       ///< When its process began, in seconds of the Unix clock.
  Counters counters;
  EngineLoad load;                     ///< The figures on the page: no moments, no divergence.
};

EnginePage read_engine_page(std::string_view text, const config::EngineNames& names = config::engine_names);

}  // namespace weir::proxy::fleet
