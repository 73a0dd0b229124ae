#pragma once

#include <boost/asio/ip/tcp.hpp>

namespace weir::lab::net {

/// Returns the address that takes a connection, where each has 250 ms before the next one is tried as well; the first
/// one if none does within 5 s, so that requests say why. `found` is not empty. The call blocks.
boost::asio::ip::tcp::endpoint first_that_connects(const boost::asio::ip::tcp::resolver::results_type& found);

}  // namespace weir::lab::net
