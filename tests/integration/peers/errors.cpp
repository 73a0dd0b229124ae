#include "tests/integration/peers/errors.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {
namespace {

boost::json::object error_of(const Response& response) {
  boost::system::error_code failed;
  const auto body = boost::json::parse(response.body, failed);
  if (failed || !body.is_object()) return {};
  const auto* error = body.get_object().if_contains("error");
  return error != nullptr && error->is_object() ? error->get_object() : boost::json::object();
}

}  // namespace

void expect_error(const Response& response, unsigned status, std::string_view type, std::string_view code) {
  EXPECT_EQ(response.status, status) << response.head.bytes << response.body;
  EXPECT_EQ(response.end, BodyEnd::whole);
  EXPECT_TRUE(response.head.has("x-request-id")) << response.head.bytes;
  EXPECT_EQ(response.head.field("content-type"), "application/json");
  const auto error = error_of(response);
  for (const auto* member : {"message", "type", "param", "code"})
    EXPECT_TRUE(error.contains(member)) << member << " is missing in: " << response.body;
  if (error.size() < 4) return;
  EXPECT_EQ(member(error, "type"), type);
  EXPECT_TRUE(error.at("message").is_string());
  EXPECT_TRUE(error.at("param").is_null());
  if (!code.empty()) {
    EXPECT_EQ(member(error, "code"), code);
  }
}

std::string error_message(const Response& response) {
  const auto error = error_of(response);
  const auto* message = error.if_contains("message");
  return message != nullptr && message->is_string() ? std::string(message->get_string()) : std::string();
}

}  // namespace weir::integration
