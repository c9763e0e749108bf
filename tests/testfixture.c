/* SPDX-License-Identifier: MIT
**
** testfixture.c -- tclsh for the tests.
**
** A program of our own, so that it can be linked with the same sanitizers as
** the emb.so that it loads; tester.tcl loads SQLite by `package require`.
**
** Adds commands that Tcl and its SQLite lack:
**   extended_errcode DB       sqlite3_extended_errcode of a connection
**   forget_function DB NAME ARGUMENTS
**                             removes a function from a connection, also one
**                             of SQLite's own; returns SQLite's code
**   sqlite3_get_autocommit DB whether no transaction is open
**   set_numeric_locale NAME   acts like a host with this locale: "," as the
**                             decimal point in printf and strtod.  Returns
**                             the point now in force; an unknown NAME is an
**                             error.
**   interrupt_arm DB PLACE N  interrupts a connection (interrupt.c) after N
**                             places of the kind "poll" or "step"
**   interrupt_disarm          ends that; whether there was an interrupt
**   owner_start MODE SO       gives all tables to another owner (owner.c), with
**                             the library SO; MODE is "process" or "copy"
**   owner_count               how often it got a store, and how often not
*/
#include "interrupt.h"
#include "owner.h"

#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <tcl.h>

/* A function of the library that `package require sqlite3` loaded, and the
** connection behind one of its commands; NULL, with the error. */
static void *of_sqlite(Tcl_Interp *interp, const char *name) {
  void *library = dlopen("libsqlite3.so.0", RTLD_LAZY | RTLD_NOLOAD);
  void *function = library ? dlsym(library, name) : NULL;
  if (!function)
    Tcl_SetObjResult(interp, Tcl_NewStringObj("no libsqlite3.so.0", -1));
  return function;
}
static void *connection(Tcl_Interp *interp, Tcl_Obj *name) {
  Tcl_CmdInfo command;
  Tcl_Obj *wrapped = Tcl_NewStringObj("::wrap::handle::", -1);
  int found;
  Tcl_IncrRefCount(wrapped);
  Tcl_AppendObjToObj(wrapped, name);
  found = Tcl_GetCommandInfo(interp, Tcl_GetString(wrapped), &command) ||
          Tcl_GetCommandInfo(interp, Tcl_GetString(name), &command);
  Tcl_DecrRefCount(wrapped);
  if (!found) {
    Tcl_SetObjResult(interp, Tcl_NewStringObj("no such connection", -1));
    return NULL;
  }
  /* tests/wrap.tcl keeps the commands that it wraps in a namespace.
  ** The command's data begins with the sqlite3*, as SQLite's tests rely on. */
  return *(void **)command.objClientData;
}

/* A function of SQLite, whose name is the data, that gives a number for a
** connection. */
static int number_of(ClientData function, Tcl_Interp *interp, int objc,
                     Tcl_Obj *const objv[]) {
  int (*ask)(void *);
  void *db;
  if (objc != 2) {
    Tcl_WrongNumArgs(interp, 1, objv, "DB");
    return TCL_ERROR;
  }
  *(void **)&ask = of_sqlite(interp, function);
  if (!ask || !(db = connection(interp, objv[1])))
    return TCL_ERROR;
  Tcl_SetObjResult(interp, Tcl_NewIntObj(ask(db)));
  return TCL_OK;
}

static int forget_function(ClientData data, Tcl_Interp *interp, int objc,
                           Tcl_Obj *const objv[]) {
  int (*create)(void *, const char *, int, int, void *, void *, void *, void *);
  int arguments;
  void *db;
  (void)data;
  if (objc != 4 || Tcl_GetIntFromObj(NULL, objv[3], &arguments) != TCL_OK) {
    Tcl_WrongNumArgs(interp, 1, objv, "DB NAME ARGUMENTS");
    return TCL_ERROR;
  }
  *(void **)&create = of_sqlite(interp, "sqlite3_create_function");
  if (!create || !(db = connection(interp, objv[1])))
    return TCL_ERROR;
  Tcl_SetObjResult(interp,
                   Tcl_NewIntObj(create(db, Tcl_GetString(objv[2]), arguments,
                                        1, NULL, NULL, NULL, NULL)));
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

static int interrupt_arm_command(ClientData data, Tcl_Interp *interp, int objc,
                                 Tcl_Obj *const objv[]) {
  static const char *const places[] = {"poll", "step", NULL};
  int place;
  long before;
  void *db;
  (void)data;
  if (objc != 4) {
    Tcl_WrongNumArgs(interp, 1, objv, "DB PLACE N");
    return TCL_ERROR;
  }
  if (Tcl_GetIndexFromObj(interp, objv[2], places, "place", 0, &place) !=
          TCL_OK ||
      Tcl_GetLongFromObj(interp, objv[3], &before) != TCL_OK ||
      !(db = connection(interp, objv[1])))
    return TCL_ERROR;
  interrupt_arm(db, place == 0 ? INTERRUPT_POLL : INTERRUPT_STEP, before);
  return TCL_OK;
}

static int interrupt_disarm_command(ClientData data, Tcl_Interp *interp,
                                    int objc, Tcl_Obj *const objv[]) {
  (void)data, (void)objc, (void)objv;
  Tcl_SetObjResult(interp, Tcl_NewIntObj(interrupt_disarm()));
  return TCL_OK;
}

static int owner_start_command(ClientData data, Tcl_Interp *interp, int objc,
                               Tcl_Obj *const objv[]) {
  (void)data;
  if (objc != 3) {
    Tcl_WrongNumArgs(interp, 1, objv, "MODE SO");
    return TCL_ERROR;
  }
  if (owner_start(Tcl_GetString(objv[1]), Tcl_GetString(objv[2]))) {
    Tcl_SetObjResult(interp, Tcl_NewStringObj(strerror(errno), -1));
    return TCL_ERROR;
  }
  return TCL_OK;
}

static int owner_count_command(ClientData data, Tcl_Interp *interp, int objc,
                               Tcl_Obj *const objv[]) {
  Tcl_Obj *counts[2];
  int owned, kept;
  (void)data, (void)objc, (void)objv;
  owner_count(&owned, &kept);
  counts[0] = Tcl_NewIntObj(owned);
  counts[1] = Tcl_NewIntObj(kept);
  Tcl_SetObjResult(interp, Tcl_NewListObj(2, counts));
  return TCL_OK;
}

static int init(Tcl_Interp *interp) {
  if (Tcl_Init(interp) != TCL_OK)
    return TCL_ERROR;
  Tcl_CreateObjCommand(interp, "extended_errcode", number_of,
                       "sqlite3_extended_errcode", NULL);
  Tcl_CreateObjCommand(interp, "forget_function", forget_function, NULL, NULL);
  Tcl_CreateObjCommand(interp, "sqlite3_get_autocommit", number_of,
                       "sqlite3_get_autocommit", NULL);
  Tcl_CreateObjCommand(interp, "set_numeric_locale", set_numeric_locale, NULL,
                       NULL);
  Tcl_CreateObjCommand(interp, "interrupt_arm", interrupt_arm_command, NULL,
                       NULL);
  Tcl_CreateObjCommand(interp, "interrupt_disarm", interrupt_disarm_command,
                       NULL, NULL);
  Tcl_CreateObjCommand(interp, "owner_start", owner_start_command, NULL, NULL);
  Tcl_CreateObjCommand(interp, "owner_count", owner_count_command, NULL, NULL);
  return TCL_OK;
}

int main(int argc, char **argv) {
  Tcl_Main(argc, argv, init);
  return 0;
}
