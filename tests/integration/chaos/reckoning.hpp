// The end of a chaos run: every count is exact, and clients and weir agree on each request.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/chaos/clients.hpp"
#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::chaos {

/// Returns a sentence for each thing that does not agree. weir is idle.
std::vector<std::string> disagreements(const std::vector<Seen>& seen, const integration::WeirUnderTest& weir);

}  // namespace weir::chaos
