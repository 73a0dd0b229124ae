// The credential that a client shows, and where else one may stand in a request.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "proxy/http/head.hpp"

namespace weir::proxy::http {

/// Returns the text behind `Bearer` in Authorization, else x-api-key; "" if there is neither. The view points into the
/// head's bytes.
std::string_view credential_of(const RequestHead& head);

/// True for a field whose name says that it holds a credential or cookies.
bool is_credential(FieldName name);

/// Returns the x-api-key that stands beside another credential_of(); "" if there are no two, or the same twice. Two
/// parsers could judge different ones.
std::string_view other_credential_of(const RequestHead& head);

/// True for a text that holds a client's key for weir: this one, which may be "", or any that looks as `weir key new`
/// makes them. A key of fewer than 8 characters has to be all of the text, for it may stand in any word.
bool holds_key(std::string_view text, std::string_view key);

/// Returns the target without the parameters whose names say that they hold a credential, and without those that
/// holds_key(), escaped or not. The order of the others stays. Names are compared without regard to case, and as they
/// are written: one with escapes is not known.
std::string without_credentials(std::string_view target, std::string_view key = {});

/// True for a text that may be a key of any make, so that it is worth a hash: it has 16 characters or more, a digit or
/// a capital letter, and no blank. Media types, a program with its version (`Go-http-client/1.1`) and a traceparent are
/// none: what usual clients send with each request costs no hash.
bool may_be_key(std::string_view text);

/// Says whether a text is somebody's key.
using IsKey = std::function<bool(std::string_view)>;

/// Cuts out of the bytes of a head each field and each query parameter that is a key or has one behind a scheme
/// (`Bearer KEY`), escaped or not. Only texts that may_be_key() are asked about. Fields that go no further in any case
/// stay. Returns true if it has cut something: then `head`, which points into the bytes, is of no further use.
bool cut_keys(std::string& head_bytes, const RequestHead& head, const IsKey& is_key);

}  // namespace weir::proxy::http
