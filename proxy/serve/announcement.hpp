// Writes what the log says when weir starts: what an operator wants to know of the settings without reading them.
#pragma once

#include <string>
#include <vector>

#include "config/settings.hpp"

namespace weir::proxy::serve {

/// Names version and loops, each pool with its policy and models, each replica with its url and config, and the request
/// log.
std::vector<std::string> start_lines(const config::Settings& settings, const std::string& version, unsigned loops);

/// Says of each shadow which requests it gets, and whether its latencies can carry a verdict.
std::vector<std::string> shadow_lines(const config::Settings& settings);

/// Says where weir listens, once it does.
std::vector<std::string> listening_lines(const config::Settings& settings);

}  // namespace weir::proxy::serve
