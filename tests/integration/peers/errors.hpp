// The errors that weir itself answers, as a test expects them.
#pragma once

#include <string_view>

#include "tests/integration/peers/http_client.hpp"

namespace weir::integration {

/// Fails the test unless this is weir's own error: whole, with an x-request-id and the JSON shape that OpenAI clients
/// expect. `code` "" leaves the code open.
void expect_error(const Response& response, unsigned status, std::string_view type, std::string_view code = "");

/// Returns the message of such an error; "" if the body is none.
std::string error_message(const Response& response);

}  // namespace weir::integration
