/* SPDX-License-Identifier: MIT
**
** testfixture.c -- tclsh for the tests.
**
** A program of our own, so that it can be linked with the same sanitizers as
** the emb.so which it loads; tester.tcl brings SQLite by `package require`.
**
** Adds commands that Tcl and its SQLite lack:
**   extended_errcode DB       sqlite3_extended_errcode of a connection
**   set_numeric_locale NAME   what a host with such a locale has: "," as the
**                             decimal point in printf and strtod.  Returns
**                             the point now in force; an unknown NAME is an
**                             error.
*/
#include <dlfcn.h>
#include <locale.h>
#include <tcl.h>

static int extended_errcode(ClientData data, Tcl_Interp *interp, int objc,
                            Tcl_Obj *const objv[]) {
  Tcl_CmdInfo connection;
  (void)data;
  if (objc != 2 ||
      !Tcl_GetCommandInfo(interp, Tcl_GetString(objv[1]), &connection)) {
    Tcl_WrongNumArgs(interp, 1, objv, "DB");
    return TCL_ERROR;
  }
  /* The library that `package require sqlite3` brought. */
  void *library = dlopen("libsqlite3.so.0", RTLD_LAZY | RTLD_NOLOAD);
  int (*ask)(void *) = NULL;
  if (library)
    *(void **)&ask = dlsym(library, "sqlite3_extended_errcode");
  if (!ask) {
    Tcl_SetObjResult(interp, Tcl_NewStringObj("no libsqlite3.so.0", -1));
    return TCL_ERROR;
  }
  /* The command's data begins with the sqlite3*, as SQLite's tests rely on. */
  Tcl_SetObjResult(interp,
                   Tcl_NewIntObj(ask(*(void **)connection.objClientData)));
  return TCL_OK;
}

static int set_numeric_locale(ClientData data, Tcl_Interp *interp, int objc,
                              Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 2) {
    Tcl_WrongNumArgs(interp, 1, objv, "NAME");
    return TCL_ERROR;
  }
  if (!setlocale(LC_NUMERIC, Tcl_GetString(objv[1]))) {
    Tcl_SetObjResult(interp, Tcl_NewStringObj("unknown locale", -1));
    return TCL_ERROR;
  }
  Tcl_SetObjResult(interp, Tcl_NewStringObj(localeconv()->decimal_point, -1));
  return TCL_OK;
}

static int init(Tcl_Interp *interp) {
  if (Tcl_Init(interp) != TCL_OK)
    return TCL_ERROR;
  Tcl_CreateObjCommand(interp, "extended_errcode", extended_errcode, NULL,
                       NULL);
  Tcl_CreateObjCommand(interp, "set_numeric_locale", set_numeric_locale, NULL,
                       NULL);
  return TCL_OK;
}

int main(int argc, char **argv) {
  Tcl_Main(argc, argv, init);
  return 0;
}
