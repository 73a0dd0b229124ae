// One GET, for pages that a command needs once: /v1/models, /metrics. Blocks, at most `timeout` in all.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace weir::lab::load {

/// The body of a 200 answer, at most 64 MiB. Throws std::runtime_error with a sentence otherwise, std::invalid_argument
/// where the URL cannot be used.
std::string http_get(const std::string& url, std::chrono::seconds timeout = std::chrono::seconds(5));

/// The ids that an answer to GET /v1/models lists; empty where it is none.
std::vector<std::string> model_ids(const std::string& body);

}  // namespace weir::lab::load
