// What GET /v1/models answers: the union over pools. A pool that names its models is taken at its word; of one that
// takes any model, its replicas are asked, again every few seconds. On the control thread.
#pragma once

#include <boost/asio/io_context.hpp>

#include "proxy/loop.hpp"

namespace weir::proxy {

/// Publishes into shared.models: at once with what the settings say, then as replicas answer. Runs until the context
/// stops.
void start_model_directory(boost::asio::io_context& context, Shared& shared);

}  // namespace weir::proxy
